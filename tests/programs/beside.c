// A thread goes on on a stack that lies right below the guard of its own, as a coroutine does, and whose root frame has a frame pointer that is
// anything: an address in the guard. Whoever follows it there dies.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536

static void *volatile kept;

static void allocate(size_t bytes) {
    for (size_t i = 0; i < 100; i++) kept = malloc(bytes + i);
}

void survive(void) {
    allocate(3000);
    puts("survived");
    fflush(stdout);
    _exit(0);
}

// Without unwind tables, so that frame pointers are followed.
void root(void);
__asm__("root: push %rbp\n mov %rsp, %rbp\n call survive\n hlt");

static void *go_beside(void *unused) {
    pthread_attr_t attributes;
    void *low;
    size_t bytes, guard;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_getguardsize(&attributes, &guard);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED_NOREPLACE;
    char *wanted = (char *)low - guard - BYTES, *stack = mmap(wanted, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    // Something else is there.
    if (stack != wanted) return unused;
    allocate(2000);
    char **top = (char **)(stack + BYTES);
    top[-1] = (char *)root + 1;
    __asm__ volatile("mov %0, %%rsp\n mov %1, %%rbp\n jmp root" : : "r"(top - 1), "r"(top + 32) : "memory");
    return NULL;
}

int main(void) {
    allocate(1000);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    for (size_t mib = 2; mib < 16; mib++) {
        // A larger stack each time: none that is there already.
        pthread_attr_setstacksize(&attributes, mib << 20);
        pthread_t thread;
        pthread_create(&thread, &attributes, go_beside, NULL);
        pthread_join(thread, NULL);
    }
    return 3;
}
