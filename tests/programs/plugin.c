/* A shared library whose one function allocates SIZE bytes. */
#include <stdlib.h>

__attribute__((noinline)) void *plugin_allocate(void) {
    void *block = malloc(SIZE);
    __asm__ volatile("" ::: "memory");
    return block;
}
