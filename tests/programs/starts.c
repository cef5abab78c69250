/* starts THREADS BYTES: threads that all begin to allocate at once, BYTES together, of several sizes, and keep it all.
   Prints the truth: "inuse_space N". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t begin;
static long each_bytes;
static void *volatile kept;

static void *allocate(void *total) {
    pthread_barrier_wait(&begin);
    long bytes = 0;
    for (int i = 0; bytes < each_bytes; i++) {
        long size = 100 + i % 7 * 900;
        kept = malloc(size);
        bytes += size;
    }
    *(long *)total = bytes;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 94;
    int threads = atoi(argv[1]);
    each_bytes = atol(argv[2]) / threads;
    static pthread_t ids[1024];
    static long totals[1024];
    long sum = 0;
    pthread_barrier_init(&begin, NULL, threads);
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, allocate, &totals[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += totals[i];
    }
    printf("inuse_space %ld\n", sum);
    return 0;
}
