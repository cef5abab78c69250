/* Strict mode, where any system call but read, write, exit and sigreturn is death: entered before the first sample and after.
   The allocator below makes no system call. The process ends by a bare exit, so its profile stays as at a death.
   lib: signal_safe_malloc.c
   build: -Wl,--no-as-needed {built}/signal_safe_malloc.so
   allocators: glibc (the program brings an allocator that makes no system call) */
#include "seccomp.h"

static int try(int is_sampled_before) {
    pid_t child = fork();
    if (child != 0) return status_of(child);
    if (is_sampled_before) free(used(8 << 20));
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    free(used(8 << 20));
    churn(3000);
    for (int i = 0; i < 300; i++) used(100);
    CHECK(write(1, "allocated\n", 10) == 10);
    syscall(SYS_exit, 6);
    return 0;
}

int main(void) {
    churn(1000);
    printf("%d\n", try(0));
    fflush(stdout);
    printf("%d\n", try(1));
    return 0;
}
