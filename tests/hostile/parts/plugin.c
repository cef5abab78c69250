/* The library that dlopen_loop copies: its build ID is patched to the copy's number. */
#include <stdlib.h>

__attribute__((noinline)) void *site_plugin_allocates(size_t size) {
    char *block = malloc(size);
    if (block) *(volatile char *)block = 1;
    return block;
}
