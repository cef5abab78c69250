// Waits for a line on standard input (or for ever, if secret), in a state in which it must not be trimmed, or in which only its
// first thread can be borrowed: pauses [strict|traced|locked|secret|crowded].
#include <limits.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void *wait_for_ever(void *nothing) {
    for (;;) pause();
    return nothing;
}

// Starts threads that wait, and whose stacks have no room for a call.
static int start_crowd(void) {
    pthread_attr_t small;
    pthread_t thread;
    if (pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) != 0) return 1;
    for (int i = 0; i < 40; i++) {
        if (pthread_create(&thread, &small, wait_for_ever, NULL) != 0) return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    volatile int taken = 0;
    void *volatile block = malloc(100);
    pid_t child = 0;
    if (strcmp(how, "locked") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, lock_arena, (void *)&taken);
        while (!taken) usleep(1000);
    }
    if (strcmp(how, "traced") == 0) {
        int ends[2];
        char byte;
        if (pipe(ends) != 0) return 2;
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        child = fork();
        if (child == 0) {
            pid_t parent = getppid();
            if (ptrace(PTRACE_SEIZE, parent, 0, 0) != 0) _exit(3);
            if (write(ends[1], "", 1) != 1) _exit(4);
            for (;;) pause();
        }
        if (read(ends[0], &byte, 1) != 1) return 5;
    }
    if (strcmp(how, "crowded") == 0 && start_crowd() != 0) return 9;
    if (strcmp(how, "secret") == 0 && prctl(PR_SET_DUMPABLE, 0) != 0) return 8;
    if (strcmp(how, "strict") == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 6;
    // Writing is allowed in strict mode, and what printf does before is not.
    if (write(1, "ready 0\n", 8) != 8) return 7;
    while (strcmp(how, "secret") == 0) pause();
    char byte;
    while (read(0, &byte, 1) == 1 && byte != '\n') {}
    if (child != 0) kill(child, 9);
    (void)block;
    _exit(0);
}
