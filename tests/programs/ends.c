// Threads that free all that they had, small blocks in the order in which they came: ends THREADS MIB. At the end of each thread's heap all is free,
// in fastbins. At a line of input it trims, and says by how much RSS fell.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long blocks;
static pthread_barrier_t freed;

static void *one_thread(void *unused) {
    char **all = malloc(blocks * sizeof *all);
    for (long i = 0; i < blocks; i++) memset(all[i] = malloc(40 + i % 60), 1, 40);
    for (long i = 0; i < blocks; i++) free(all[i]);
    free(all);
    pthread_barrier_wait(&freed);
    for (;;) pause();
    return unused;
}

static long resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) abort();
    fclose(file);
    return pages * 4096;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int threads = atoi(words[1]);
    blocks = atol(words[2]) * 1048576 / threads / 80;
    pthread_barrier_init(&freed, NULL, threads + 1);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, one_thread, NULL) != 0) abort();
    }
    pthread_barrier_wait(&freed);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
        long before = resident();
        malloc_trim(0);
        printf("returned %ld\n", before - resident());
        fflush(stdout);
    }
    return 0;
}
