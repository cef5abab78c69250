// Busy threads.
//
//   busy grow THREADS MIB        each allocates its part and keeps two blocks of three, touched     -> result LIVE_BYTES
//   busy pairs THREADS COUNT     each makes so many pairs of malloc and free of 100 bytes           -> result 0
//   busy extents COUNT           2 MiB mapped and touched, 20,000 bytes allocated, 2 MiB unmapped   -> result LIVE_BYTES
//
// LIVE_BYTES are those that the program holds by its own count. It then waits for the end of its standard input.
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXTENT_BYTES (2l << 20)

static atomic_long live_bytes;
static long part;
static int is_growing;

// The compiler must neither remove a pair nor know that it is one.
#define ESCAPE(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")

static void grow(unsigned random) {
    long held = 0;
    while (held < part) {
        random = random * 1664525u + 1013904223u;
        size_t bytes = 16 + (random >> 16) % 4000;
        char *block = malloc(bytes);
        memset(block, 1, bytes);
        ESCAPE(block);
        if ((random >> 8) % 3 == 0)
            free(block);
        else
            held += bytes;
    }
    atomic_fetch_add(&live_bytes, held);
}

static void *work(void *number) {
    if (is_growing) {
        grow((unsigned)(long)number * 7919u + 1);
        return NULL;
    }
    for (long i = 0; i < part; i++) {
        void *block = malloc(100);
        ESCAPE(block);
        free(block);
    }
    return NULL;
}

static void extents(long count) {
    for (; count > 0; count--) {
        char *extent = mmap(NULL, EXTENT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long at = 0; at < EXTENT_BYTES; at += 4096)
            extent[at] = 1;
        char *block = malloc(20000);
        memset(block, 1, 20000);
        ESCAPE(block);
        live_bytes += 20000;
        munmap(extent, EXTENT_BYTES);
        usleep(900);
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return fprintf(stderr, "usage: busy grow|pairs|extents …\n"), 2;
    long count = atol(argv[2]);
    if (strcmp(argv[1], "extents") == 0) {
        extents(count);
    } else {
        is_growing = strcmp(argv[1], "grow") == 0;
        part = is_growing ? atol(argv[3]) * (1l << 20) / count : atol(argv[3]);
        pthread_t *threads = calloc(count, sizeof *threads);
        for (long i = 0; i < count; i++)
            pthread_create(&threads[i], NULL, work, (void *)i);
        for (long i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
    }
    printf("result %ld\n", live_bytes);
    fflush(stdout);
    char end;
    return read(0, &end, 1) < 0;
}
