// Grows a little again and again, in one way, or grows and shrinks as fast as it can.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEP = 4 << 10, PAUSE_US = 100 };
static const size_t most = (size_t)3 << 30;

static void *heap(void *unused) {
    for (size_t bytes = 0; bytes < most; bytes += STEP) {
        memset(malloc(STEP - 16), 1, STEP - 16);
        usleep(PAUSE_US);
    }
    pause();
    return unused;
}

static void deeper(size_t bytes) {
    volatile char frame[STEP];
    frame[0] = frame[STEP - 1] = 1;
    usleep(PAUSE_US);
    if (bytes < most - (1 << 20)) deeper(bytes + STEP);
    else pause();
    frame[1] = 1;
}

static void *stack(void *unused) {
    deeper(0);
    return unused;
}

static void mapping(void) {
    // Far from all others, so that there is room behind it.
    size_t bytes = 1 << 20;
    char *memory = mmap((void *)0x100000000000, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (; bytes < most; bytes += STEP) {
        if (mremap(memory, bytes, bytes + STEP, 0) != memory) abort();
        memory[bytes] = 1;
        usleep(PAUSE_US);
    }
    pause();
}

// At most 48 MiB at a time: a mapping at one address and another, the heap, and pages that come and go.
static void wild(void) {
    enum { PART = 16 << 20 };
    char *stays = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    for (size_t turn = 0;; turn++) {
        size_t bytes = PART >> turn % 5;
        void *where = (void *)(0x100000000000 + (turn * 7 % 16 << 32));
        char *moves = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(moves, 1, bytes);
        memset(stays, 1, bytes);
        free(memset(malloc(bytes), 1, bytes));
        malloc_trim(0);
        madvise(stays, PART, MADV_DONTNEED);
        munmap(where, bytes);
    }
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    // Before there are threads, which inherit it.
    sigset_t asked;
    int signal;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &asked, NULL);
    mallopt(M_TOP_PAD, 0);
    // Makes the profile.
    memset(malloc(2 << 20), 1, 2 << 20);
    puts("ready");
    fflush(stdout);
    // The first growth is not before its reader has looked.
    sigwait(&asked, &signal);
    pthread_t thread;
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, most);
    if (strcmp(what, "heap") == 0) heap(NULL);
    else if (strcmp(what, "arena") == 0) pthread_create(&thread, NULL, heap, NULL);
    else if (strcmp(what, "stack") == 0) pthread_create(&thread, &large, stack, NULL);
    else if (strcmp(what, "mapping") == 0) mapping();
    else if (strcmp(what, "wild") == 0) wild();
    else return 2;
    pause();
}
