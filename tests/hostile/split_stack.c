/* Code of -fsplit-stack: its stack grows by pieces that lie anywhere, and shrinks again; it allocates on every one of them, in
   several threads, and calls the C library, which knows nothing of this.
   build: -fsplit-stack -fuse-ld=gold -fno-omit-frame-pointer */
#include "hostile.h"
#include <pthread.h>

__attribute__((noinline)) static long recurse(int depth) {
    volatile char local[2000];
    memset((char *)local, depth, sizeof local);
    char *block = used(100 + depth % 700);
    long sum = depth == 0 ? 0 : recurse(depth - 1);
    sum += block[0] + local[depth % sizeof local];
    free(block);
    return sum;
}

static void *work(void *unused) {
    (void)unused;
    long sum = 0;
    /* Two megabytes of frames, on a stack of 64 KiB. */
    for (int round = 0; round < 20; round++) sum += recurse(1000);
    return (void *)sum;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], &attributes, work, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        void *sum;
        CHECK(pthread_join(threads[i], &sum) == 0);
        printf("%ld\n", (long)sum);
    }
    printf("%ld\n", (long)work(NULL));
    return 0;
}
