/* Cancellation: deferred, of threads that allocate or wait with blocks that clean-up handlers free; asynchronous, of threads
   that only count. The forced unwinding passes whatever frames are there. */
#include "hostile.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t started;
static int cleaned;

static void clean(void *block) {
    free(block);
    churn(3);
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *allocating(void *unused) {
    void *block = used(500);
    pthread_cleanup_push(clean, block);
    sem_post(&started);
    for (;;) {
        churn(10);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return unused;
}

static void *waiting(void *unused) {
    void *block = used(70000);
    pthread_cleanup_push(clean, block);
    sem_post(&started);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return unused;
}

static void *counting(void *unused) {
    void *block = used(300);
    pthread_cleanup_push(clean, block);
    sem_post(&started);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (volatile long i = 0;; i++) {}
    pthread_cleanup_pop(0);
    return unused;
}

int main(void) {
    void *(*bodies[])(void *) = {allocating, waiting, counting};
    sem_init(&started, 0, 0);
    for (int i = 0; i < 600; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, bodies[i % 3], NULL) == 0);
        sem_wait(&started);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    printf("%d threads cancelled and cleaned up\n", cleaned);
    return 0;
}
