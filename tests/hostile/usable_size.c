/* malloc_usable_size of a block from every function, the whole of it used, and freed through every way there is.
   varies-attached: :
   representative */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void use(const char *name, char *block, size_t size) {
    size_t usable = malloc_usable_size(block);
    memset(block, 0xa5, usable);
    for (size_t i = 0; i < usable; i++)
        if ((unsigned char)block[i] != 0xa5) abort();
    printf("%s %zu: %zu\n", name, size, usable);
}

int main(void) {
    printf("NULL: %zu\n", malloc_usable_size(NULL));
    for (int round = 0; round < 10; round++)
        for (size_t size = 0; size < 600000; size = size * 3 / 2 + 1) {
            void *blocks[8] = {malloc(size), calloc(1, size), realloc(NULL, size), memalign(512, size), valloc(size),
                               aligned_alloc(64, (size + 63) & ~(size_t)63), NULL, realloc(malloc(size / 2 + 1), size + 1)};
            if (posix_memalign(&blocks[6], 4096, size)) abort();
            static const char *const names[] = {"malloc", "calloc", "realloc", "memalign", "valloc", "aligned_alloc",
                                                "posix_memalign", "realloc of a block"};
            for (int i = 0; i < 8; i++) use(names[i], blocks[i], size);
            for (int i = 0; i < 8; i++) free(i % 2 ? blocks[i] : realloc(blocks[i], size + 100));
        }
    return 0;
}
