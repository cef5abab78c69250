/* 500 threads at once, on the smallest stacks that pthread_attr_setstacksize accepts (16 KiB), that free what their neighbours
   allocated. A sample certainly falls on such a stack, at the usual interval too.
   representative */
#include "hostile.h"
#include <limits.h>
#include <pthread.h>

enum { THREADS = 500, ROUNDS = 20 };
static void *handed_on[THREADS];
static pthread_barrier_t barrier;

static void *thread(void *argument) {
    long number = (long)argument;
    if (number == 250) take_a_certain_sample();
    for (int round = 0; round < ROUNDS; round++) {
        churn(20);
        handed_on[number] = used(100 + number);
        pthread_barrier_wait(&barrier);
        free(handed_on[(number + 1) % THREADS]);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], &attributes, thread, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    puts("500 threads");
    return 0;
}
