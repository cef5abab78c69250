/* With any allocator: a handler at 10 kHz on an alternate stack that allocates only when the main loop says that it is not
   inside the allocator, and interrupts it (and ramson) there without doing anything. */
#include "hostile.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t in_malloc, handled, allocated;

static void handler(int signal) {
    (void)signal;
    handled++;
    if (in_malloc) return;
    churn(20);
    allocated++;
}

int main(void) {
    static _Alignas(16) char stack[65536];
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval period = {{0, 100}, {0, 100}};
    CHECK(setitimer(ITIMER_REAL, &period, NULL) == 0);
    while (handled < 3000 || allocated < 100) {
        in_malloc = 1;
        churn(50);
        in_malloc = 0;
        for (volatile int i = 0; i < 3000; i++) {}
    }
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
    puts("3000 signals, allocations between allocations");
    return 0;
}
