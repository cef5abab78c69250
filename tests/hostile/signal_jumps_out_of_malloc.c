/* A handler at 10 kHz leaves by siglongjmp whatever it interrupted: malloc, free, realloc, or ramson inside them. The
   allocator below is signal-safe: a jump costs it at most a block.
   lib: signal_safe_malloc.c
   build: -Wl,--no-as-needed {built}/signal_safe_malloc.so
   allocators: glibc (the program brings an allocator that allows this)
   in-flight: 500 */
#include "hostile.h"
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile sig_atomic_t may_jump, jumps, out_of_ramson;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    if (!may_jump) return;
    unsigned long ip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (ip >= ramson_low && ip < ramson_high) out_of_ramson++;
    jumps++;
    may_jump = 0;
    siglongjmp(back, 1);
}

static void allocate_until_interrupted(int alternate) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | (alternate ? SA_ONSTACK : 0)};
    sigaction(SIGALRM, &action, NULL);
    jumps = out_of_ramson = 0;
    /* Blocks that a jump loses stay taken: few enough jumps for the allocator's slots. */
    static void *volatile block;
    while (jumps < 200 || (everything_is_sampled() && out_of_ramson == 0)) {
        if (sigsetjmp(back, 1) != 0) continue;
        may_jump = 1;
        for (int i = 0; i < 1000; i++) {
            block = malloc(100 + i);
            block = realloc(block, 200 + i);
            free(block);
        }
        may_jump = 0;
    }
}

int main(void) {
    static _Alignas(16) char stack[65536];
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    struct itimerval period = {{0, 100}, {0, 100}};
    signal(SIGALRM, SIG_IGN);
    churn(100);
    CHECK(setitimer(ITIMER_REAL, &period, NULL) == 0);
    allocate_until_interrupted(0);
    puts("200 jumps on the program's stack");
    allocate_until_interrupted(1);
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
    puts("200 jumps from the alternate stack");
    free(used(1 << 20));
    return 0;
}
