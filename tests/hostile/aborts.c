/* abort by children that share memory or do not, by threads, out of a signal handler on a small stack, and again and again by a
   program that jumps out of it, with memory left and without; at last for good.
   build: -pthread
   ends: signal 6
   representative */
#include "hostile.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread sigjmp_buf way_back;
static char small_stack[16384];
static void *volatile kept;

static void jumps(int signal) {
    (void)signal;
    siglongjmp(way_back, 1);
}

static void aborts(int signal) {
    (void)signal;
    abort();
}

static int come_back_from_abort(void) {
    signal(SIGABRT, jumps);
    if (sigsetjmp(way_back, 1)) return 1;
    abort();
}

static void *in_a_thread(void *nothing) {
    (void)nothing;
    free(malloc(100));
    return (void *)(long)come_back_from_abort();
}

static int end_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) continue;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static pid_t forked(void (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        work();
        _exit(1);
    }
    return child;
}

static void abort_on_a_small_stack(void) {
    stack_t stack = {.ss_sp = small_stack, .ss_size = sizeof small_stack};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = aborts, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void exhaust(void) {
    struct rlimit limit = {0, 0};
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%zu", &pages) != 1) _exit(3);
    fclose(statm);
    limit.rlim_cur = limit.rlim_max = pages * 4096 + (8 << 20);
    setrlimit(RLIMIT_AS, &limit);
    do kept = malloc(1000);
    while (kept);
}

static void abort_exhausted(void) {
    exhaust();
    for (int i = 0; i < 20; i++)
        if (!come_back_from_abort()) _exit(4);
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void exhausted_on_a_small_stack(void) {
    exhaust();
    abort_on_a_small_stack();
}

int main(void) {
    for (int i = 0; i < 200; i++) {
        kept = malloc(i);
        if (!come_back_from_abort()) return 2;
        free(kept);
    }
    /* One after the other: the C library's own account of an abort is the process's. */
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        void *came_back = NULL;
        pthread_create(&thread, NULL, in_a_thread, NULL);
        pthread_join(thread, &came_back);
        if (!came_back) return 5;
    }
    signal(SIGABRT, SIG_DFL);
    pid_t sharing = vfork();
    if (!sharing) abort();
    printf("vfork %d\n", end_of(sharing));
    printf("fork %d\n", end_of(forked(abort)));
    printf("small stack %d\n", end_of(forked(abort_on_a_small_stack)));
    printf("exhausted %d\n", end_of(forked(abort_exhausted)));
    printf("exhausted, small stack %d\n", end_of(forked(exhausted_on_a_small_stack)));
    fflush(stdout);
    abort();
}
