/* Filters of system calls, for the programs that try them. */
#include "hostile.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Allows the calls listed (up to -1) and does `otherwise` for all others. */
__attribute__((unused)) static void allow_only(const int *calls, unsigned otherwise) {
    struct sock_filter filter[64];
    unsigned short length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; *calls >= 0; calls++) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *calls, 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){length, filter}, 0, 0) == 0);
}

/* System calls of a program on glibc while it starts, allocates, prints and ends. */
#define CALLS_TO_START                                                                                           \
    SYS_execve, SYS_openat, SYS_read, SYS_pread64, SYS_close, SYS_newfstatat, SYS_fstat, SYS_mprotect,           \
        SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_access
#define CALLS_TO_ALLOCATE                                                                                        \
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_futex, SYS_write, SYS_getrandom, SYS_exit_group

/* A child that its filter killed without ramson would show nothing, so over such an allocator this program ends otherwise. */
__attribute__((unused)) static int status_of_filtered(pid_t child) {
    int status = status_of(child);
    CHECK(status == 5);
    return status;
}

/* More than is there when a process has just begun: new stacks, new mappings, new pages. */
__attribute__((unused)) static void allocate_a_lot(int depth) {
    void *volatile block;
    for (int i = 0; i < 200; i++) CHECK((block = malloc(1000)) != NULL);
    take_a_certain_sample();
    churn(500);
    if (depth > 0) allocate_a_lot(depth - 1);
}
