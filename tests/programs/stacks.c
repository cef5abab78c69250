/* stacks LEVELS: allocates 3 objects at the end of each of 2^LEVELS paths and frees one; sizes tell the path. Ends normally.
   busy THREADS: that many threads allocate, reallocate and free objects of 40 to 2,000 bytes on many paths until killed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept;

static void left(int levels, unsigned path, void (*leaf)(unsigned));
static void right(int levels, unsigned path, void (*leaf)(unsigned));

static void descend(int levels, unsigned path, void (*leaf)(unsigned)) {
    if (levels == 0) {
        leaf(path);
    } else if (path >> (levels - 1) & 1) {
        right(levels - 1, path, leaf);
    } else {
        left(levels - 1, path, leaf);
    }
}

static void left(int levels, unsigned path, void (*leaf)(unsigned)) { descend(levels, path, leaf); }
static void right(int levels, unsigned path, void (*leaf)(unsigned)) { descend(levels, path, leaf); }

static void keep_two(unsigned path) {
    void *first = malloc(1000 + path);
    kept = malloc(2000 + path);
    kept = malloc(3000 + path);
    free(first);
}

static __thread void *own[400];
static __thread unsigned long state;

static void churn(unsigned path) {
    for (int i = 0; i < 20; i++) {
        state = state * 6364136223846793005UL + 1442695040888963407UL;
        void **slot = &own[(state >> 33) % 400];
        size_t size = 40 + ((state >> 20) % 50) * 40;
        switch (state >> 60 & 3) {
        case 0:
            free(*slot);
            *slot = NULL;
            break;
        case 1:
            *slot = realloc(*slot, size);
            break;
        default:
            free(*slot);
            *slot = malloc(size);
        }
    }
    (void)path;
}

static void *work(void *number) {
    state = (unsigned long)number * 7919 + 1;
    for (unsigned path = 0;; path++) descend(8, path & 255, churn);
    return NULL;
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "stacks")) {
        int levels = atoi(argv[2]);
        for (unsigned path = 0; path >> levels == 0; path++) descend(levels, path, keep_two);
        return 0;
    }
    /* In case that nobody does. */
    alarm(600);
    pthread_t thread;
    for (long i = 1; i < atoi(argv[2]); i++) pthread_create(&thread, NULL, work, (void *)i);
    work(NULL);
    return 0;
}
