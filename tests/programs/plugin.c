/* A shared library whose one function allocates SIZE bytes; PADDING bytes make its code longer. */
#include <stdlib.h>

__attribute__((noinline)) void *plugin_allocate(void) {
    void *block = malloc(SIZE);
#if PADDING > 0
    __asm__ volatile(".skip " PADDING_TEXT ", 0x90");
#endif
    return block;
}
