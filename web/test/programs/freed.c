/* Frees most of what it allocated and keeps one block of every page, so that malloc can return nothing, or one of so many as its argument
   says; waits until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 40000, BLOCK_BYTES = 500, ONE_OF_A_PAGE = 8 };

int main(int count, char **arguments) {
    int kept_every = count > 1 ? atoi(arguments[1]) : ONE_OF_A_PAGE;
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % kept_every != 0) free(blocks[i]);
    puts("ready");
    fflush(stdout);
    return getchar() == 'q';
}
