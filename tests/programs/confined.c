// Keeps memory that was freed, confines itself, and answers each line with its number: confined FILTER WAIT.
//   tight   lets through what it does itself, and kills for the rest
//   docker  refuses what Docker's default profile (moby, profiles/seccomp/default.json) refuses without capabilities
// It waits in read, or in poll, which the kernel begins again after a stop as restart_syscall.
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action)
#define SKIP_UNLESS(test, value, count) (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, count)
#define SKIP_IF(test, value, count) (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, count, 0)

static struct sock_filter code[512];
static int length;

static void add(struct sock_filter instruction) { code[length++] = instruction; }

static void tight(void) {
    static const unsigned allowed[] = {SYS_read, SYS_poll, SYS_write, SYS_exit_group};
    add(LOAD(nr));
    for (int i = 0; i < 4; i++) {
        add(SKIP_UNLESS(BPF_JEQ, allowed[i], 1));
        add(RETURN(SECCOMP_RET_ALLOW));
    }
    add(RETURN(SECCOMP_RET_KILL_PROCESS));
}

static void docker(void) {
    static const unsigned refused[][2] = {
        {103, 103}, {134, 134}, {136, 136}, {139, 139}, {153, 153}, {155, 156}, {161, 161}, {163, 185}, {212, 212}, {214, 215}, {227, 227},
        {236, 239}, {246, 246}, {248, 250}, {256, 256}, {272, 272}, {279, 279}, {298, 298}, {300, 300}, {304, 304}, {308, 308}, {312, 313},
        {320, 321}, {323, 323}, {428, 433}, {438, 438}, {440, 440}, {442, 443}, {450, 0x3fffffff}};
    const unsigned namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    add(LOAD(arch));
    add(SKIP_IF(BPF_JEQ, AUDIT_ARCH_X86_64, 1));
    add(RETURN(SECCOMP_RET_KILL_PROCESS));
    add(LOAD(nr));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        add(SKIP_UNLESS(BPF_JGE, refused[i][0], 2));
        add(SKIP_IF(BPF_JGT, refused[i][1], 1));
        add(RETURN(SECCOMP_RET_ERRNO | 1));
    }
    add(SKIP_UNLESS(BPF_JEQ, SYS_clone3, 1));
    add(RETURN(SECCOMP_RET_ERRNO | 38));
    add(SKIP_UNLESS(BPF_JEQ, SYS_clone, 3));
    add(LOAD(args[0]));
    add(SKIP_UNLESS(BPF_JSET, namespaces, 1));
    add(RETURN(SECCOMP_RET_ERRNO | 1));
    add(RETURN(SECCOMP_RET_ALLOW));
}

// 40 MB in blocks that are too large for caches, of which 1 in 1,000 stays: also the last one, so that no system call is needed anew.
static void keep(void) {
    static void *blocks[40000];
    for (int i = 0; i < 40000; i++)
        if (i % 1000 != 999 || blocks[i] == NULL) memset(blocks[i] = malloc(1040), 1, 1040);
    for (int i = 0; i < 40000; i++)
        if (i % 1000 != 999) free(blocks[i]);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int polls = strcmp(arguments[2], "poll") == 0;
    keep();
    if (strcmp(arguments[1], "docker") == 0) docker();
    else tight();
    struct sock_fprog program = {length, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) return 3;
    for (int number = 0;; number++) {
        char line[64];
        int bytes = snprintf(line, sizeof line, "alive %d\n", number);
        if (write(1, line, bytes) != bytes) return 4;
        char byte = 0;
        do {
            if (polls && poll(&(struct pollfd){0, POLLIN, 0}, 1, 1000000) != 1) return 5;
            // The test has gone.
            if (read(0, &byte, 1) != 1) syscall(SYS_exit_group, 0);
        } while (byte != '\n');
        keep();
    }
}
