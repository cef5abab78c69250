// Threads that allocate and free under a clock: latency THREADS SECONDS. Each holds up to 40 MB and lets most of it go, again and again. Prints the
// median, the 99th and 99.9th percentile and the longest of the times of a malloc or free, ns, over all threads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS 20000
// Nanoseconds, exact below 16; beyond, eight steps to each doubling.
#define STEPS 512

static double seconds;
static unsigned long counts[STEPS], longest;
static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;

static unsigned long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ul + time.tv_nsec;
}

static int step_of(unsigned long ns) {
    if (ns < 16) return ns;
    int top = 63 - __builtin_clzl(ns);
    return top * 8 + (ns >> (top - 3) & 7) - 16;
}

static unsigned long start_of(int step) {
    if (step < 16) return step;
    int top = (step + 16) / 8;
    return (8ul + (step + 16) % 8) << (top - 3);
}

static void *work(void *seed) {
    static __thread void *blocks[BLOCKS];
    static __thread unsigned long own[STEPS];
    unsigned long random = (unsigned long)seed * 0x9e3779b97f4a7c15, most = 0, begin = now();
    while (now() - begin < seconds * 1e9) {
        for (int i = 0; i < 2 * BLOCKS; i++) {
            random = random * 6364136223846793005 + 1442695040888963407;
            size_t size = 1100 + (random >> 40) % 1900;
            int is_filled = i < BLOCKS, slot = i % BLOCKS;
            if (!is_filled && slot % 500 == 0) continue;
            unsigned long start = now();
            if (is_filled) {
                free(blocks[slot]);
                blocks[slot] = malloc(size);
            } else {
                free(blocks[slot]);
            }
            unsigned long took = now() - start;
            if (is_filled) memset(blocks[slot], 1, size);
            else blocks[slot] = NULL;
            own[step_of(took)]++;
            if (took > most) most = took;
        }
    }
    pthread_mutex_lock(&sums);
    for (int i = 0; i < STEPS; i++) counts[i] += own[i];
    if (most > longest) longest = most;
    pthread_mutex_unlock(&sums);
    return NULL;
}

static unsigned long percentile(double share) {
    unsigned long all = 0, seen = 0;
    for (int i = 0; i < STEPS; i++) all += counts[i];
    for (int i = 0; i < STEPS; i++) {
        seen += counts[i];
        if (seen >= all * share) return start_of(i);
    }
    return longest;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 2;
    seconds = count > 2 ? atof(arguments[2]) : 5;
    pthread_t all[64];
    if (threads > 64) return 2;
    for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    printf("result %lu %lu %lu %lu\n", percentile(0.5), percentile(0.99), percentile(0.999), longest);
}
