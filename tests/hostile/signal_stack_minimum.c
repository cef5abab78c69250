/* Alternate signal stacks of the smallest size that the kernel accepts (AT_MINSIGSTKSZ), with an unmapped page below: first a
   handler that does nothing while the main loop allocates, then one that allocates: with SIGSTKSZ bytes as sysconf says, and with
   what the kernel and a sample need and hardly more, which is too little for a walk.
   lib: signal_safe_malloc.c
   build: -Wl,--no-as-needed {built}/signal_safe_malloc.so
   allocators: glibc (the program brings an allocator that allows this) */
#include "hostile.h"
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;

static void count(int signal) {
    (void)signal;
    handled++;
}

static void allocate(int signal) {
    (void)signal;
    free(malloc(100));
    handled++;
}

static void interrupt(void (*handler)(int), size_t bytes) {
    size_t mapped = (bytes + 4095) & ~4095ul;
    char *area = mmap(NULL, mapped + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area, 4096, PROT_NONE) == 0);
    CHECK(sigaltstack(&(stack_t){.ss_sp = area + 4096, .ss_size = bytes}, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval period = {{0, 100}, {0, 100}};
    CHECK(setitimer(ITIMER_REAL, &period, NULL) == 0);
    for (handled = 0; handled < 2000;) churn(64);
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
}

int main(void) {
    /* The kernel still wants its old constant if the processor's registers need less. */
    size_t least = getauxval(AT_MINSIGSTKSZ);
    interrupt(count, least < 2048 ? 2048 : least);
    puts("2000 handlers on the smallest stack");
    interrupt(allocate, sysconf(_SC_SIGSTKSZ));
    puts("2000 handlers allocated on one of SIGSTKSZ bytes");
    interrupt(allocate, least + 3072 + 512);
    puts("2000 handlers allocated on one with little room");
    return 0;
}
