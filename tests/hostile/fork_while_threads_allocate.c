/* One thread forks again and again while four allocate; each child allocates, frees what it inherited and leaves.
   representative */
#include "hostile.h"
#include <pthread.h>
#include <stdatomic.h>

static atomic_int stop;

static void *busy(void *unused) {
    while (!stop) churn(500);
    return unused;
}

static void *forking(void *unused) {
    void *inherited[50];
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 50; k++) inherited[k] = used(100 * k);
        pid_t child = fork();
        if (child == 0) {
            churn(200);
            for (int k = 0; k < 50; k++) free(inherited[k]);
            i % 2 ? _exit(i) : exit(i);
        }
        for (int k = 0; k < 50; k++) free(inherited[k]);
        CHECK(status_of(child) == i);
    }
    return unused;
}

int main(void) {
    pthread_t threads[5];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, busy, NULL);
    pthread_create(&threads[4], NULL, forking, NULL);
    pthread_join(threads[4], NULL);
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("40 children");
    return 0;
}
