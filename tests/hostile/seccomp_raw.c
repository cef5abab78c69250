/* A filter that kills, installed by a system call instruction of the program's own, which nobody can hook: it
   forbids two calls that ramson makes.
   ramson: any */
#include "seccomp.h"

static long raw(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    for (int is_sampled_before = 0; is_sampled_before < 2; is_sampled_before++) {
        pid_t child = fork();
        if (child == 0) {
            if (is_sampled_before) take_a_certain_sample();
            CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
            struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
            CHECK(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) == 0);
            allocate_a_lot(30);
            exit(5);
        }
        printf("%s: %d\n", is_sampled_before ? "after a sample" : "before a sample", status_of_filtered(child));
    }
    return 0;
}
