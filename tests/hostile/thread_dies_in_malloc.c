/* Threads that end in the middle of malloc, and so in the middle of a sample: by pthread_exit from a handler, by asynchronous
   cancellation, and by a bare exit system call. The allocator below is signal-safe, so that this is well defined.
   lib: signal_safe_malloc.c
   build: -Wl,--no-as-needed {built}/signal_safe_malloc.so
   allocators: glibc (the program brings an allocator that allows this)
   in-flight: 500 */
#include "hostile.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <ucontext.h>

static atomic_int dead_in_ramson, rounds;
static int way;

static void *allocate_for_ever(void *unused) {
    (void)unused;
    if (way == 1) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    void *volatile block;
    for (;; rounds++) {
        block = malloc(200);
        block = realloc(block, 300);
        free(block);
    }
    return NULL;
}

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    unsigned long ip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (ip >= ramson_low && ip < ramson_high) dead_in_ramson++;
    if (way == 0) pthread_exit(NULL);
    syscall(SYS_exit, 0);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    int is_sampled = everything_is_sampled();
    for (way = 0; way < 3; way++) {
        for (int i = 0; i < 60 || (way != 1 && is_sampled && dead_in_ramson == 0); i++) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, allocate_for_ever, NULL) == 0);
            for (int seen = rounds; rounds < seen + 100 + i * 7;) {}
            CHECK((way == 1 ? pthread_cancel(thread) : pthread_kill(thread, SIGUSR1)) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
        }
        dead_in_ramson = 0;
        churn(100);
        printf("60 threads ended in way %d\n", way);
        fflush(stdout);
    }
    return 0;
}
