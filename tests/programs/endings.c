/* exit|_exit|quick_exit|exec: ends so, with status 5, while four threads allocate and free. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int started;

static void *work(void *unused) {
    __atomic_add_fetch(&started, 1, __ATOMIC_RELAXED);
    for (;;) {
        void *block = malloc(100);
        free(realloc(block, 300));
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2) return 5;
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
    }
    while (started < 4) usleep(100);
    usleep(3000);
    if (!strcmp(argv[1], "exit")) exit(5);
    if (!strcmp(argv[1], "_exit")) _exit(5);
    if (!strcmp(argv[1], "quick_exit")) quick_exit(5);
    execl("/proc/self/exe", argv[0], NULL);
    return 6;
}
