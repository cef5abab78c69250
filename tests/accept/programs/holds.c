/* holds SEED: allocates and frees a heap of 4 to 40 MiB by chance, and prints by the allocator's own count how many bytes are live. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST (1 << 17)

static uint64_t state;
static void *blocks[MOST];

static uint64_t drawn(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % below;
}

/* As many of 16 to 32 bytes as of 32 to 64, and so on up to 32 KiB. */
static size_t size(void) {
    size_t least = (size_t)16 << drawn(11);
    return least + drawn(least);
}

#ifdef JEMALLOC
int mallctl(const char *, void *, size_t *, void *, size_t);
/* Blocks in a thread's cache would count as allocated. */
const char *malloc_conf = "tcache:false";
static size_t counted(void) {
    size_t bytes, size = sizeof bytes;
    uint64_t epoch = 1;
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    mallctl("stats.allocated", &bytes, &size, NULL, 0);
    return bytes;
}
#elif defined TCMALLOC
int MallocExtension_GetNumericProperty(const char *, size_t *);
static size_t counted(void) {
    size_t bytes;
    MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &bytes);
    return bytes;
}
#else
static size_t asked[MOST];
static size_t counted(void) {
    size_t bytes = 0;
    for (int i = 0; i < MOST; i++) bytes += asked[i];
    return bytes;
}
#endif

static void *now(int i, void *block, size_t bytes) {
#if !defined JEMALLOC && !defined TCMALLOC
    asked[i] = bytes;
#endif
    (void)i;
    if (block) memset(block, 1, bytes < 64 ? bytes : 64);
    return block;
}

int main(int argc, char **argv) {
    state = argc > 1 ? strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1 : 1;
    for (int i = 0; i < 20; i++) drawn(2);
    size_t target = (4 << 20) + drawn(36 << 20), sum = 0;
    int count = 0;
    while (sum < target && count < MOST) {
        size_t bytes = size();
        blocks[count] = now(count, drawn(4) ? malloc(bytes) : calloc(1, bytes), bytes);
        count++;
        sum += bytes;
    }
    /* Half of the blocks go, come again with another size, or change theirs. */
    for (int round = 0; round < count; round++) {
        int i = drawn(count);
        size_t bytes = size();
        if (drawn(3)) {
            free(blocks[i]);
            blocks[i] = drawn(2) ? now(i, malloc(bytes), bytes) : now(i, NULL, 0);
        } else {
            blocks[i] = now(i, realloc(blocks[i], bytes), bytes);
        }
    }
    dprintf(1, "%zu\n", counted());
    _exit(0);
}
