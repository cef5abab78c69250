/* Seccomp filters that kill for whatever a program does not use itself.
   exec kill|errno PROGRAM …: starts a program under a filter that lets through what a C program starts with and writes with.
   exec lenient|strict-service PROGRAM …: kills for ptrace only, as a service manager does; for process_vm_readv as well.
   exec no-code PROGRAM …: kills for memory without a file that can be executed.
   exec before-5.14|before-4.14 PROGRAM …: madvise knows no MADV_POPULATE_WRITE; nor MADV_WIPEONFORK.
   coroutines: allocates in turn on the own stack of a thread and on one below that, prints how often it read a file meanwhile.
   prctl|syscall|strict|raw: allocates, confines itself that way, allocates at new places and in new depths, ends.
   threads: the same for all threads, of which one is there before and one comes later.
   ask: asks in the usual ways whether the kernel has filters, installs none, allocates. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int starting[] = {
    SYS_execve, SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_read, SYS_pread64, SYS_close, SYS_fstat, SYS_newfstatat, SYS_access,
    SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_write, SYS_exit_group,
    SYS_pause, SYS_clock_nanosleep};
static const int running[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap};
static const int threading[] = {
    SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_clone, SYS_clone3, SYS_futex,
    SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_set_robust_list, SYS_rseq, SYS_madvise};

static struct sock_filter code[256];
static struct sock_fprog program;

/* Lets through the given calls, and openat as far as the loader uses it if it is among what starting needs. */
static void compile(const int *calls, int count, unsigned otherwise) {
    struct sock_filter *next = code;
    *next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    if (calls == starting) {
        *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3);
        *next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
        *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 02000000 /* O_RDONLY | O_CLOEXEC */, 0, 1);
        *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    program = (struct sock_fprog){next - code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Lets everything through but the given calls. */
static void compile_denial(const int *calls, int count) {
    struct sock_filter *next = code;
    *next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        *next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    *next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program = (struct sock_fprog){next - code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void compile_old_madvise(unsigned first_unknown) {
    struct sock_filter checks[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first_unknown, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    memcpy(code, checks, sizeof checks);
    program = (struct sock_fprog){COUNT(checks), code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void compile_no_code(void) {
    struct sock_filter checks[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    memcpy(code, checks, sizeof checks);
    program = (struct sock_fprog){COUNT(checks), code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static long raw(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static void say(const char *text) { write(1, text, strlen(text)); }

static void *volatile kept[4096];
static volatile int used;

__attribute__((noinline)) static void site_before(void) {
    for (int i = 0; i < 10; i++) kept[used++] = malloc(7001);
}

__attribute__((noinline)) static void site_after(void) {
    for (int i = 0; i < 300; i++) {
        kept[used++] = malloc(702);
        free(malloc(702));
    }
}

__attribute__((noinline)) static int site_deep(int depth) {
    volatile char frame[4000];
    frame[0] = depth;
    void *block = malloc(703);
    int result = depth ? site_deep(depth - 1) + frame[0] : 0;
    free(block);
    return result;
}

static pthread_mutex_t confined = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void site_thread(void) { kept[used++] = malloc(704); }

static void *wait_and_work(void *unused) {
    pthread_mutex_lock(&confined);
    site_thread();
    site_deep(5);
    pthread_mutex_unlock(&confined);
    return unused;
}

static int in_threads(void) {
    pthread_t early, late;
    pthread_mutex_lock(&confined);
    pthread_create(&early, NULL, wait_and_work, NULL);
    compile(threading, COUNT(threading), SECCOMP_RET_KILL_PROCESS);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) return 9;
    site_after();
    pthread_mutex_unlock(&confined);
    pthread_join(early, NULL);
    pthread_create(&late, NULL, wait_and_work, NULL);
    pthread_join(late, NULL);
    say("done\n");
    return 0;
}

enum { SWITCHES = 500, COROUTINE_BYTES = 64 << 10, STACK_BYTES = 1 << 20 };
static ucontext_t thread_context, coroutine_context;

__attribute__((noinline)) static void site_coroutine(void) {
    for (;;) {
        free(malloc(705));
        swapcontext(&coroutine_context, &thread_context);
    }
}

static long reads(void) {
    long count = -1;
    FILE *io = fopen("/proc/self/io", "r");
    if (io && fscanf(io, "rchar: %*d wchar: %*d syscr: %ld", &count) != 1) exit(6);
    fclose(io);
    return count;
}

static void *switch_stacks(void *coroutine_stack) {
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = coroutine_stack;
    coroutine_context.uc_stack.ss_size = COROUTINE_BYTES;
    makecontext(&coroutine_context, site_coroutine, 0);
    free(malloc(706));
    swapcontext(&thread_context, &coroutine_context);
    long before = reads();
    for (int i = 0; i < SWITCHES; i++) {
        free(malloc(706));
        swapcontext(&thread_context, &coroutine_context);
    }
    printf("reads %ld\n", reads() - before);
    return NULL;
}

static int coroutines(void) {
    char *stacks = mmap(NULL, COROUTINE_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stacks + COROUTINE_BYTES, STACK_BYTES);
    return pthread_create(&thread, &attributes, switch_stacks, stacks) || pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    if (!strcmp(way, "coroutines")) return coroutines();
    if (!strcmp(way, "exec")) {
        static const int denied[] = {SYS_ptrace, SYS_process_vm_readv};
        int is_kill = !strcmp(argv[2], "kill");
        if (!strcmp(argv[2], "lenient") || !strcmp(argv[2], "strict-service"))
            compile_denial(denied, argv[2][0] == 'l' ? 1 : 2);
        else if (!strcmp(argv[2], "no-code")) compile_no_code();
        else if (!strcmp(argv[2], "before-5.14")) compile_old_madvise(23);
        else if (!strcmp(argv[2], "before-4.14")) compile_old_madvise(18);
        else compile(starting, COUNT(starting), is_kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
        raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program);
        execv(argv[3], argv + 3);
        return 8;
    }
    /* Leaves so much room that the heap need not grow afterwards. */
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    free(malloc(1 << 20));
    if (argc < 3) site_before();
    if (!strcmp(way, "threads")) return in_threads();
    if (!strcmp(way, "ask")) {
        if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) || errno != EFAULT) return 7;
        if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) || errno != EFAULT) return 7;
        if (prctl(PR_GET_SECCOMP)) return 7;
    } else {
        compile(running, COUNT(running), SECCOMP_RET_KILL_PROCESS);
        long failed = !strcmp(way, "prctl")  ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                      : !strcmp(way, "syscall") ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                      : !strcmp(way, "strict")  ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)
                                                : raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
        if (failed) return 9;
    }
    site_after();
    site_deep(30);
    say("done\n");
    if (!strcmp(way, "strict")) syscall(SYS_exit, 0);
    return 0;
}
