/* A program that ships its own malloc, complete: the C library and the program use that one, ramson's is never reached by them.
   ramson: any
   representative */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts/region_malloc.h"

static void *work(void *unused) {
    for (int i = 0; i < 2000; i++) {
        char *text;
        if (asprintf(&text, "%0*d", i % 500, i) < 0) abort();
        text = realloc(text, 600);
        free(text);
        free(calloc(10, i));
        void *block = NULL;
        if (posix_memalign(&block, 64, i) || (unsigned long)block % 64) abort();
        free(block);
    }
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    void *block = malloc(10);
    printf("its own: %d\n", is_of_region(block));
    free(block);
    return 0;
}
