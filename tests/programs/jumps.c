/* Leaves ramson's own code for good, in many places, by siglongjmp out of a handler, on the thread's stack or (alternate) on a
   signal stack; or ends the thread there by a cancellation (cancel). The C library's malloc is never left so: the handler jumps only
   where it interrupted libramson.so. Then allocates known objects. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { WANTED = 150, KEPT = 500 };

static unsigned long low, high;
static volatile int jumps, is_cancelling, is_leaving;
static sigjmp_buf start;
static sigset_t timer;
static void *kept[KEPT];

static void find_ramson(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "r-xp") && strstr(line, "/libramson.so")) sscanf(line, "%lx-%lx", &low, &high);
    fclose(maps);
}

static void on_timer(int signal, siginfo_t *facts, void *context) {
    unsigned long at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (at < low || at >= high || jumps >= WANTED || is_leaving) return;
    jumps++;
    if (is_cancelling) {
        /* A thread that ends frees memory; it must not end again there. */
        is_leaving = 1;
        pthread_exit(NULL);
    }
    siglongjmp(start, 1);
}

static void *allocate_until_left(void *unused) {
    struct itimerval often = {{0, 200}, {0, 200}};
    pthread_sigmask(SIG_UNBLOCK, &timer, NULL);
    sigsetjmp(start, 1);
    setitimer(ITIMER_REAL, &often, NULL);
    while (jumps < WANTED) {
        void *block = malloc(64);
        block = realloc(block, 128);
        free(block);
    }
    return unused;
}

__attribute__((noinline)) static void site_afterwards(void) {
    for (int i = 0; i < KEPT; i++) {
        kept[i] = malloc(901);
        free(malloc(901));
    }
}

int main(int argc, char **argv) {
    static char signal_stack[1 << 16];
    int is_alternate = !strcmp(argv[1], "alternate");
    stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    if (is_alternate) sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | (is_alternate ? SA_ONSTACK : 0)};
    sigaction(SIGALRM, &action, NULL);
    find_ramson();
    void *volatile early = malloc(77);
    is_cancelling = !strcmp(argv[1], "cancel");
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    if (is_cancelling) {
        /* This thread is not to end: it never handles the timer. */
        pthread_sigmask(SIG_BLOCK, &timer, NULL);
        while (jumps < WANTED) {
            pthread_t thread;
            is_leaving = 0;
            pthread_create(&thread, NULL, allocate_until_left, NULL);
            pthread_join(thread, NULL);
        }
    } else {
        allocate_until_left(NULL);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    /* The remains of the last jump are found here at the latest: by a free of a sample, or by many bytes. */
    free(early);
    free(malloc(1 << 20));
    free(malloc(1));
    site_afterwards();
    printf("jumps %d\n", jumps);
    return 0;
}
