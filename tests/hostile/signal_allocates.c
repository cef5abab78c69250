/* A timer at 10 kHz interrupts a loop that allocates; its handler, on an alternate stack, allocates too, and a second signal
   interrupts the first. The allocator below is signal-safe, so interruptions inside malloc, and inside ramson, are legal.
   lib: signal_safe_malloc.c
   build: -Wl,--no-as-needed {built}/signal_safe_malloc.so
   allocators: glibc (the program brings an allocator that allows this)
   representative */
#include "hostile.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <ucontext.h>

static atomic_int handled, inside_ramson;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)info;
    int saved = errno;
    unsigned long ip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (ip >= ramson_low && ip < ramson_high) inside_ramson++;
    void *kept = used(100);
    if (signal == SIGALRM && handled++ % 8 == 0) raise(SIGUSR1);
    churn(4);
    kept = realloc(kept, 5000);
    CHECK(*(char *)kept == 0x5a);
    free(kept);
    errno = saved;
}

static void interrupt(void *alternate, size_t bytes) {
    CHECK(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = bytes}, NULL) == 0);
    handled = inside_ramson = 0;
    struct itimerval period = {{0, 100}, {0, 100}};
    CHECK(setitimer(ITIMER_REAL, &period, NULL) == 0);
    while (handled < 3000 || (everything_is_sampled() && inside_ramson == 0)) {
        errno = 1234;
        churn(64);
        CHECK(errno == 1234);
    }
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
}

static void *thread(void *unused) {
    (void)unused;
    static _Alignas(16) char stack[65536];
    interrupt(stack, sizeof stack);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    static _Alignas(16) char stack[65536];
    interrupt(stack, sizeof stack);
    puts("3000 handlers allocated on the first thread");
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    pthread_join(other, NULL);
    puts("and on another");
    return 0;
}
