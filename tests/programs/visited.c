/* visited THREADS [WAITING]: lives while others come and go. THREADS threads allocate, fill, check and free without a pause; others wait
   in epoll_wait, nanosleep, read and a condition variable (WAITING more), and one forks. Nothing of that may fail or be interrupted. Lines
   on standard input: `hold N` keeps N blocks of 100,000 bytes more, `drop` frees them, `load FILE` loads a library and calls its `grow`, `unload
   FILE` undoes that, `storm FILE` has a thread do both all the time, `fork` answers from a child that has held 50 blocks; `quit`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// With 1, epoll_wait may say EINTR: after a stop of all threads the kernel gives a child's end to another thread, and a ramson that is killed
// in the microseconds after a stop cannot help its thread.
#ifndef MAY_INTERRUPT
#define MAY_INTERRUPT 0
#endif
#define HELD 4096
static void *held[HELD];
static int held_count;
static int events;
static long rounds, errors, interrupted;

// Says of the first ones where, on standard error.
static void counted(long *of, int line) {
    int error = errno;
    if (__atomic_fetch_add(of, 1, __ATOMIC_RELAXED) < 3) dprintf(2, "visited.c:%d: errno %d\n", line, error);
}
#define count(of) counted(of, __LINE__)

static void *spin(void *number) {
    unsigned state = 7919 * ((long)number + 1);
    unsigned char *blocks[64] = {0};
    size_t sizes[64] = {0};
    for (;;) {
        state = state * 1664525 + 1013904223;
        int slot = state >> 26;
        if (blocks[slot]) {
            for (size_t at = 0; at < sizes[slot]; at += 97)
                if (blocks[slot][at] != (unsigned char)(slot + sizes[slot])) count(&errors);
            if (state & 1) {
                unsigned char *larger = realloc(blocks[slot], sizes[slot] + 40);
                if (larger[sizes[slot] - 1] != (unsigned char)(slot + sizes[slot])) count(&errors);
                blocks[slot] = larger;
            }
            free(blocks[slot]);
        }
        sizes[slot] = 1 + (state >> 8) % 5000;
        blocks[slot] = state & 2 ? malloc(sizes[slot]) : calloc(1, sizes[slot]);
        if (!blocks[slot]) count(&errors);
        memset(blocks[slot], slot + sizes[slot], sizes[slot]);
        errno = 0;
        free(malloc(300));
        if (errno) count(&errors);
        __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *wait_for_events(void *unused) {
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(events, &event, 1, 20) == -1 && !(errno == EINTR && MAY_INTERRUPT))
            count(errno == EINTR ? &interrupted : &errors);
    }
    return unused;
}

static void *doze(void *unused) {
    for (;;) {
        struct timespec time = {0, 15000000};
        if (nanosleep(&time, NULL) == -1) count(errno == EINTR ? &interrupted : &errors);
    }
    return unused;
}

static int ends[2];
static void *read_bytes(void *unused) {
    char byte;
    for (;;)
        if (read(ends[0], &byte, 1) != 1) count(errno == EINTR ? &interrupted : &errors);
    return unused;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static void *wait_for_nothing(void *unused) {
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&never, &mutex);
    return unused;
}

static void *fork_children(void *unused) {
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 20; i++) free(malloc(10000));
            _exit(7);
        }
        int status;
        while (waitpid(child, &status, 0) == -1)
            if (errno == EINTR) count(&interrupted);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) count(&errors);
        usleep(3000);
    }
    return unused;
}

__attribute__((noinline)) static void hold_more(int number) {
    while (number-- > 0 && held_count < HELD) memset(held[held_count++] = malloc(100000), 1, 100000);
}

static void drop(void) {
    while (held_count) free(held[--held_count]);
}

static void load(const char *file) {
    void *library = dlopen(file, RTLD_NOW);
    void (*grow)(int) = library ? (void (*)(int))dlsym(library, "grow") : NULL;
    if (grow) grow(100);
    else count(&errors);
}

static void unload(const char *file) {
    void *library;
    while ((library = dlopen(file, RTLD_NOW | RTLD_NOLOAD)))
        if (dlclose(library) || dlclose(library)) count(&errors);
}

static char storm_file[4096];
static void *load_and_unload(void *unused) {
    for (;;) {
        void *library = dlopen(storm_file, RTLD_LAZY);
        long (*turn_over)(int) = library ? (long (*)(int))dlsym(library, "turn_over") : NULL;
        if (!turn_over || turn_over(20) != 20 || dlclose(library)) count(&errors);
        __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

static void answer_from_child(void) {
    pid_t child = fork();
    if (child == 0) {
        hold_more(50);
        printf("child %d\n", getpid());
        fflush(stdout);
        pause();
    }
}

int main(int argc, char **argv) {
    pthread_t thread;
    char line[4096];
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    // Whoever counts descriptors does so from "ready" on.
    events = epoll_create1(0);
    if (pipe(ends) || events < 0) return 1;
    void *(*work[])(void *) = {wait_for_events, doze, read_bytes, wait_for_nothing, fork_children};
    for (int i = 0; threads && i < 5; i++) pthread_create(&thread, NULL, work[i], NULL);
    for (long i = 0; i < threads; i++) pthread_create(&thread, NULL, spin, (void *)i);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int waiting = argc > 2 ? atoi(argv[2]) : 0; waiting > 0; waiting--)
        if (pthread_create(&thread, &small, wait_for_nothing, NULL)) return 1;
    printf("ready 0\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "hold ", 5)) hold_more(atoi(line + 5));
        else if (!strcmp(line, "drop")) drop();
        else if (!strncmp(line, "load ", 5)) load(line + 5);
        else if (!strncmp(line, "unload ", 7)) unload(line + 7);
        else if (!strncmp(line, "storm ", 6)) {
            strcpy(storm_file, line + 6);
            pthread_create(&thread, NULL, load_and_unload, NULL);
        }
        else if (!strcmp(line, "fork")) answer_from_child();
        else if (!strcmp(line, "quit")) return 0;
        printf("faults %ld\nrounds %ld\n", __atomic_load_n(&errors, __ATOMIC_RELAXED)
               + __atomic_load_n(&interrupted, __ATOMIC_RELAXED), __atomic_load_n(&rounds, __ATOMIC_RELAXED));
        fflush(stdout);
    }
    return 0;
}
