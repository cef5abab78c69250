/* 10,000 threads, ten at a time, that allocate, hand blocks on and end. */
#include "hostile.h"
#include <pthread.h>

static void *thread(void *given) {
    free(given);
    churn(5);
    return used(100);
}

int main(void) {
    for (int round = 0; round < 1000; round++) {
        pthread_t threads[10];
        for (int i = 0; i < 10; i++) CHECK(pthread_create(&threads[i], NULL, thread, used(64)) == 0);
        for (int i = 0; i < 10; i++) {
            void *left;
            CHECK(pthread_join(threads[i], &left) == 0);
            free(left);
        }
    }
    puts("10000 threads");
    return 0;
}
