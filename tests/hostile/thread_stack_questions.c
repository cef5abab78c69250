/* pthread_getattr_np in a loop on every thread: it reads /proc/self/maps with allocations of its own, and profilers that call
   it from malloc deadlock. */
#include "hostile.h"
#include <pthread.h>

static void *thread(void *unused) {
    for (int i = 0; i < 300; i++) {
        pthread_attr_t attributes;
        void *low;
        size_t bytes;
        CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
        CHECK(pthread_attr_getstack(&attributes, &low, &bytes) == 0);
        CHECK((char *)&low >= (char *)low && (char *)&low < (char *)low + bytes);
        pthread_attr_destroy(&attributes);
        churn(10);
    }
    return unused;
}

int main(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, thread, NULL);
    thread(NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts("2700 answers");
    return 0;
}
