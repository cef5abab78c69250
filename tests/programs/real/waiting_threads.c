// waiting_threads COUNT SIZE: each thread holds a block of SIZE bytes, larger than its cache takes, and waits.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static size_t size;

static void *wait_with_block(void *unused) {
    void *volatile block = malloc(size);
    pthread_barrier_wait(&barrier);
    pause();
    free(block);
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int count = atoi(argv[1]);
    size = strtoul(argv[2], 0, 10);
    pthread_barrier_init(&barrier, 0, count + 1);
    for (int number = 0; number < count; number++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, wait_with_block, 0) != 0)
            return 1;
    }
    pthread_barrier_wait(&barrier);
    puts("ready");
    fflush(stdout);
    pause();
}
