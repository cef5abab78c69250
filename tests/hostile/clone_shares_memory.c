/* Bare clone with CLONE_VM: children that use the parent's memory, allocator and, without CLONE_SETTLS, its thread-local
   storage, with and without CLONE_VFORK, and leave by a bare system call or _exit while the parent waits; and, with storage of
   their own, while the parent and another thread allocate, too. */
#include "hostile.h"
#include <sched.h>
#include <pthread.h>
#include <signal.h>
#include <dlfcn.h>
#include <sys/syscall.h>

static void *volatile given;

static int child(void *way) {
    churn(300);
    given = used(3000);
    if (!strcmp(way, "bare")) syscall(SYS_exit_group, 4);
    if (!strcmp(way, "_exit")) _exit(4);
    return 4;
}

/* Thread-local storage as the C library would make it for a thread. */
static void *own_tls(void) {
    void *(*allocate)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
    CHECK(allocate != NULL);
    char *block = allocate(NULL), *mine;
    CHECK(block != NULL);
    __asm__("mov %%fs:0, %0" : "=r"(mine));
    /* tcbhead_t: tcb, self, stack guard, pointer guard. */
    *(void **)block = block;
    *(void **)(block + 0x10) = block;
    memcpy(block + 0x28, mine + 0x28, 16);
    return block;
}

static int is_threaded;
static volatile int is_over;

static void *allocate_too(void *unused) {
    while (!is_over) churn(20);
    return unused;
}

static void run(const char *name, int flags, const char *way) {
    enum { STACK = 256 << 10 };
    char *stack = used(STACK);
    void *tls = flags & CLONE_SETTLS ? own_tls() : NULL;
    given = NULL;
    pid_t pid = clone(child, stack + STACK, flags | CLONE_VM | SIGCHLD, (void *)way, NULL, tls, NULL);
    /* The C library's malloc takes no locks if nobody else allocates. */
    while (is_threaded && !given) churn(20);
    printf("%s %d\n", name, status_of(pid));
    CHECK(given != NULL);
    free(given);
    free(stack);
    churn(300);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    churn(300);
    for (int i = 0; i < 3; i++) {
        const char *way = ((const char *[]){"return", "_exit", "bare"})[i];
        run("shared memory", 0, way);
        run("and the parent stopped", CLONE_VFORK, way);
        run("and own thread-local storage", CLONE_SETTLS, way);
        run("and shared descriptors", CLONE_FILES | CLONE_FS | CLONE_VFORK, way);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_too, NULL) == 0);
    is_threaded = 1;
    for (int i = 0; i < 20; i++) run("and own thread-local storage, at the same time", CLONE_SETTLS, i % 2 ? "_exit" : "bare");
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
