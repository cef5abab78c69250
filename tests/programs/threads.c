/* threads COUNT ROUNDS KEPT: each thread allocates ROUNDS times 4 objects of 301 to 304 bytes and frees 3 of them (one in
   another thread); of the fourth kind the latest KEPT live. All start at once. short COUNT: so many threads, one after the
   other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count, rounds, kept;
static pthread_barrier_t start;
static void *volatile handed[64];
static void **lists[64];

__attribute__((noinline)) static void site_work(int number) {
    for (int i = 0; i < rounds; i++) {
        void *first = malloc(301), *second = calloc(1, 302), *third = malloc(303);
        void **slot = &lists[number][i % kept];
        free(*slot);
        *slot = realloc(third, 304);
        free(first);
        /* Freed by whoever comes next. */
        void *other = __atomic_exchange_n(&handed[(number + i) % count], second, __ATOMIC_ACQ_REL);
        free(other);
    }
}

static void *work(void *number) {
    pthread_barrier_wait(&start);
    site_work((int)(long)number);
    return NULL;
}

__attribute__((noinline)) static void site_short(void) {
    free(malloc(401));
    lists[0][rounds++ % 10] = malloc(402);
}

static void *short_work(void *unused) {
    site_short();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    if (!strcmp(argv[1], "short")) {
        lists[0] = calloc(10, sizeof(void *));
        for (int i = 0; i < atoi(argv[2]); i++) {
            pthread_create(&threads[0], NULL, short_work, NULL);
            pthread_join(threads[0], NULL);
        }
        return 0;
    }
    count = atoi(argv[2]);
    rounds = atoi(argv[3]);
    kept = atoi(argv[4]);
    pthread_barrier_init(&start, NULL, count);
    for (int i = 0; i < count; i++) lists[i] = calloc(kept, sizeof(void *));
    for (long i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) free(handed[i]);
    return 0;
}
