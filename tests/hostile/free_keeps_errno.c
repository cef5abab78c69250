/* free(NULL), and errno across every function that succeeds, also for blocks that are mapped and given back to the kernel. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define KEEPS(call) \
    do { \
        errno = 4711; \
        call; \
        if (errno != 4711 && round == 0) printf("%zu: " #call " set errno %d\n", size, errno); \
    } while (0)

int main(void) {
    void *blocks[8];
    for (int round = 0; round < 30; round++)
        for (size_t size = 1; size < 40000000; size = size * 4 + 1) {
            KEEPS(free(NULL));
            KEEPS(blocks[0] = malloc(size));
            KEEPS(blocks[1] = calloc(2, size));
            KEEPS(blocks[2] = memalign(4096, size));
            KEEPS(blocks[3] = realloc(malloc(10), size));
            KEEPS(if (posix_memalign(&blocks[4], 64, size)) abort());
            KEEPS(malloc_usable_size(blocks[0]));
            for (int i = 0; i < 5; i++) KEEPS(free(blocks[i]));
        }
    puts("done");
    return 0;
}
