/* Frees most of what it allocated and keeps one block of every page, so that malloc can return nothing; waits until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 40000, BLOCK_BYTES = 500, KEPT_EVERY = 8 };

int main(void) {
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % KEPT_EVERY != 0) free(blocks[i]);
    puts("ready");
    fflush(stdout);
    return getchar() == 'q';
}
