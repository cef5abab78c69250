/* A known mixture of sizes around the interval T (argument): prints the truth as "inuse_space N" and so on. Half is freed,
   some of the rest grows by realloc. */
#include <stdio.h>
#include <stdlib.h>

struct kind {
    size_t size;
    int count;
};

static unsigned long inuse_space, inuse_objects, alloc_space, alloc_objects;

static void count(size_t size) {
    alloc_space += size;
    alloc_objects++;
    inuse_space += size;
    inuse_objects++;
}

static void uncount(size_t size) {
    inuse_space -= size;
    inuse_objects--;
}

__attribute__((noinline)) static void site_mixture(struct kind kind) {
    void **blocks = malloc(kind.count * sizeof(void *));
    count(kind.count * sizeof(void *));
    for (int i = 0; i < kind.count; i++) {
        blocks[i] = malloc(kind.size);
        count(kind.size);
    }
    for (int i = 0; i < kind.count; i++) {
        if (i % 2) {
            free(blocks[i]);
            uncount(kind.size);
        } else if (i % 8 == 0) {
            blocks[i] = realloc(blocks[i], kind.size * 3 / 2);
            uncount(kind.size);
            count(kind.size * 3 / 2);
        }
    }
}

int main(int argc, char **argv) {
    size_t t = strtoul(argv[1], NULL, 10);
    struct kind kinds[] = {{100, 100000}, {4096, 3000}, {t / 2, 120}, {t, 80}, {2 * t, 40}};
    for (int i = 0; i < 5; i++) site_mixture(kinds[i]);
    printf("inuse_space %lu\ninuse_objects %lu\nalloc_space %lu\nalloc_objects %lu\n", inuse_space, inuse_objects,
           alloc_space, alloc_objects);
    return 0;
}
