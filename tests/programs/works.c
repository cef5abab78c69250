// Keeps memory that was freed, and is traced (unless HOW is untraced), so that it can only be asked inside to give it back: works HOW.
// What allocates then, and where, is HOW. SIGUSR1 ends it; `wrong` says how many bytes were not what had been written.
#define _GNU_SOURCE
#include "trimmed.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define BLOCKS 40000
#define MANY_BLOCKS 200000
static void *blocks[MANY_BLOCKS];
static volatile int ended, started;

// 40 MB in blocks that are too large for caches, of which 1 in 1,000 stays; or 200 MB.
static void keep(int count) {
    for (int i = 0; i < count; i++) memset(blocks[i] = malloc(1040), 1, 1040);
    for (int i = 0; i < count; i++)
        if (i % 1000 != 0) free(blocks[i]);
}

static void say(const char *what, long result) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %ld\n", what, result);
    if (write(1, line, length) != length) _exit(2);
}

static void on_end(int signal) {
    (void)signal;
    ended = 1;
}

static void on_start(int signal) {
    (void)signal;
    started = 1;
}

// Traces the first thread, and does nothing with it.
static void trace(void) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0) _exit(3);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (fork() == 0) {
        pid_t parent = getppid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_SEIZE, parent, 0, 0) != 0) _exit(4);
        if (write(ends[1], "", 1) != 1) _exit(5);
        for (int status; waitpid(parent, &status, __WALL) == parent && WIFSTOPPED(status);) {
            int is_event = status >> 16 != 0;
            ptrace(PTRACE_CONT, parent, 0, is_event ? 0 : WSTOPSIG(status));
        }
        _exit(0);
    }
    if (read(ends[0], &byte, 1) != 1) _exit(6);
}

static void *work(void *seed) {
    return (void *)churn(&ended, (unsigned long)seed, 200);
}

static long works(int count) {
    pthread_t threads[4];
    for (int i = 1; i < count; i++) pthread_create(&threads[i], NULL, work, (void *)(size_t)i);
    say("ready", 0);
    long wrong = (long)work(NULL);
    for (int i = 1; i < count; i++) {
        void *others;
        pthread_join(threads[i], &others);
        wrong += (long)others;
    }
    return wrong;
}

// What a signal's handler does that allocates.
__attribute__((noinline, used)) static void allocate(void) {
    void *volatile block = malloc(2000);
    free(block);
}

static void on_signal(int signal) {
    (void)signal;
    allocate();
}

__attribute__((noinline, optimize("no-asynchronous-unwind-tables", "no-unwind-tables", "omit-frame-pointer")))
static void on_signal_untold(int signal) {
    (void)signal;
    allocate();
}

// Claims to be the outermost function.
void on_signal_lying(int signal);
__asm__(".text\non_signal_lying:\n.cfi_startproc\n.cfi_undefined rip\npush %rbx\n.cfi_adjust_cfa_offset 8\ncall allocate\npop %rbx\n"
        ".cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n");

// Returns as the C library's handlers do, in code that is not the C library's, behind a function that claims to be outermost.
void own_restorer(void);
__asm__(".text\n.zero 32\n.cfi_startproc\n.cfi_undefined rip\nud2\nud2\n.cfi_endproc\nown_restorer:\nmov $15, %eax\nsyscall\n");

static void returns_by_itself(void) {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {on_signal, 0x04000000, own_restorer, 0};
    syscall(SYS_rt_sigaction, SIGWINCH, &action, NULL, 8);
    say("ready", 0);
    while (!ended) raise(SIGWINCH);
}

static void interrupted(void (*handler)(int), int flags) {
    static _Alignas(16) char elsewhere[1 << 16];
    _Alignas(16) char within[1 << 16];
    char *alternate = flags == SA_ONSTACK ? elsewhere : within;
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = 1 << 16}, NULL);
    sigaction(SIGWINCH, &action, NULL);
    say("ready", 0);
    while (!ended) raise(SIGWINCH);
}

static void coroutine(void) {
    while (!ended) allocate();
}

static void *allocates(void *unused) {
    coroutine();
    return unused;
}

// On a thread with a stack of 40 KiB.
static void small(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 40 << 10);
    pthread_create(&thread, &attributes, allocates, NULL);
    say("ready", 0);
    pthread_join(thread, NULL);
}

static void coroutines(void) {
    static ucontext_t first, other;
    void *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = 1 << 18;
    other.uc_link = &first;
    makecontext(&other, coroutine, 0);
    say("ready", 0);
    swapcontext(&first, &other);
}

// Takes the lock of its own arena and keeps it, as a thread does that dies in malloc: the arena's heap begins with two pointers and two
// sizes, padded; the lock is the arena's first word.
static void *lock_arena(void *taken) {
    char *block = malloc(100);
    char *heap = (char *)((unsigned long)block & ~((64ul << 20) - 1));
    *(volatile int *)*(char **)heap = 1;
    *(volatile int *)taken = 1;
    for (;;) pause();
    return NULL;
}

static void locked(void) {
    volatile int taken = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, lock_arena, (void *)&taken);
    while (!taken) usleep(1000);
}

// While the locks of all arenas are held, by this thread.
static void in_fork(void) {
    while (!ended && started) allocate();
}

static int allocate_in_child(void *unused) {
    (void)unused;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    say("ready", 0);
    for (;;) allocate();
    return 0;
}

static void waits(void) {
    while (!ended) usleep(1000);
}

// Where the process has its profile, and in it the number of the request that a thread has taken.
static volatile unsigned long *taken_request(void) {
    char line[512];
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (start == 0 && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, ".ramson") != NULL) start = strtoul(line, NULL, 16);
    fclose(maps);
    return (volatile unsigned long *)(start + 2624);
}

// Has a filter installed that allows everything, while another thread gives memory back.
static long confines(void) {
    struct sock_filter allows[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allows};
    volatile unsigned long *taken = taken_request();
    pthread_t thread;
    pthread_create(&thread, NULL, allocates, NULL);
    say("ready", 0);
    while (*taken == 0) {}
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    say("confined", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
    waits();
    return 0;
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    static _Alignas(16) char stack[1 << 18];
    long wrong = 0;
    signal(SIGUSR1, on_end);
    signal(SIGUSR2, on_start);
    if (strcmp(how, "forks") == 0) pthread_atfork(in_fork, NULL, NULL);
    // A trim that lasts long enough for something to be done meanwhile.
    keep(strcmp(how, "confines") == 0 ? MANY_BLOCKS : BLOCKS);
    if (strcmp(how, "untraced") != 0) trace();
    if (strcmp(how, "one") == 0) wrong = works(1);
    if (strcmp(how, "threads") == 0 || strcmp(how, "untraced") == 0) wrong = works(4);
    if (strcmp(how, "handler") == 0) interrupted(on_signal, 0);
    if (strcmp(how, "alternate") == 0) interrupted(on_signal, SA_ONSTACK);
    // The alternate stack lies in the first thread's own.
    if (strcmp(how, "within") == 0) interrupted(on_signal, SA_ONSTACK | SA_RESTART);
    if (strcmp(how, "untold") == 0) interrupted(on_signal_untold, 0);
    if (strcmp(how, "lying") == 0) interrupted(on_signal_lying, 0);
    if (strcmp(how, "restorer") == 0) returns_by_itself();
    if (strcmp(how, "small") == 0) small();
    if (strcmp(how, "coroutine") == 0) coroutines();
    if (strcmp(how, "locked") == 0) locked(), wrong = works(1);
    if (strcmp(how, "filtered") == 0) wrong = kill_for_madvise() != 0 ? -1 : works(1);
    if (strcmp(how, "confines") == 0) wrong = confines();
    if (strcmp(how, "child") == 0) {
        if (fork() == 0) return allocate_in_child(NULL);
        waits();
    }
    if (strcmp(how, "shared") == 0) {
        clone(allocate_in_child, stack + sizeof stack, CLONE_VM, NULL);
        waits();
    }
    if (strcmp(how, "forks") == 0) {
        started = 1;
        say("ready", 0);
        if (fork() == 0) _exit(0);
    }
    if (strcmp(how, "later") == 0) {
        say("ready", 0);
        while (!started) usleep(1000);
        wrong = (long)work(NULL);
    }
    say("wrong", wrong);
    fflush(stdout);
    _exit(0);
}
