/* Parts that programs to be trimmed share: work that notices if it is harmed, and a filter that kills for a trim. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Allocates and frees without ever waiting, until `*has_ended`, and checks that every block holds what was written. Returns how many
   bytes did not. `rounds` of arithmetic between two blocks are work of the program's own, with floating-point state to lose. */
static unsigned long churn(volatile int *has_ended, unsigned long seed, int rounds) {
    unsigned long random = seed * 0x9e3779b97f4a7c15 + 1, wrong = 0, mixed = 0;
    unsigned char *held[512] = {0};
    size_t sizes[512];
    while (!*has_ended) {
        random = random * 6364136223846793005 + 1442695040888963407;
        size_t slot = (random >> 33) % 512, size = (random >> 42) % 5000 + 1;
        if (held[slot] != NULL) {
            for (size_t i = 0; i < sizes[slot]; i++) wrong += held[slot][i] != (unsigned char)(slot + sizes[slot]);
            free(held[slot]);
        }
        held[slot] = malloc(size);
        sizes[slot] = size;
        memset(held[slot], (int)(slot + size), size);
        double value = (double)size;
        for (int i = 0; i < rounds; i++) mixed = mixed * 31 + (unsigned long)(value = value * 1.0000001);
    }
    for (int slot = 0; slot < 512; slot++) free(held[slot]);
    return wrong + (mixed == 1);
}

/* Whoever gives pages back is killed: what malloc_trim does, and the program itself does not. */
static int kill_for_madvise(void) {
    struct sock_filter kills[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof kills / sizeof *kills, kills};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}
