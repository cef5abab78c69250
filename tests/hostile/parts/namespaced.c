/* A library that allocates by itself and through the C library, and frees what others allocated. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *allocate_text(int number) {
    char *text;
    if (asprintf(&text, "text %0*d", number % 3000, number) < 0) abort();
    return realloc(text, strlen(text) + 100);
}

char *duplicate_text(const char *text) { return strdup(text); }
void release(void *block) { free(block); }

__attribute__((constructor)) static void begin(void) { free(malloc(300)); }
__attribute__((destructor)) static void end(void) { free(calloc(3, 300)); }
