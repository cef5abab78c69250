/* glibc's debugging malloc, preloaded after ramson: checks every block, and ends the program on a double free with its own words.
   preload: after libc_malloc_debug.so.0
   env: MALLOC_CHECK_=3
   allocators: glibc (it is its own)
   ends: signal 6
   representative */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    void *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(i * 50);
        blocks[i] = realloc(blocks[i], i * 51 + 1);
        memset(blocks[i], 1, malloc_usable_size(blocks[i]));
    }
    for (int i = 0; i < 100; i++) free(blocks[i]);
    for (int shift = 3; shift < 16; shift++) free(memalign((size_t)1 << shift, 1000));
    puts("checked");
    fflush(stdout);
    void *volatile block = malloc(100);
    free(block);
    free(block);
    return 0;
}
