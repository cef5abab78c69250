/* Stacks next to each other in one mapping, with nothing unreadable between them: a thread's own and two that it switches to by
   hand. One of these is unmapped, then made unreadable, and the neighbour below goes on, from code whose callers' frames would
   lie there.
   representative */
#include "hostile.h"
#include <pthread.h>
#include <sys/mman.h>

enum { STACK = 64 << 10 };
static char *area;

/* malloc with a frame pointer of the caller's choice, from code without unwind tables. */
void *bare_malloc(size_t bytes, void *rbp, void *(*malloc)(size_t));
__asm__(
    ".pushsection .text.bare,\"ax\",@progbits\n"
    "bare_malloc:\n"
    "push %rbp\n"
    "mov %rsi, %rbp\n"
    "call *%rdx\n"
    "pop %rbp\n"
    "ret\n"
    ".popsection\n");

static void allocate(void) {
    churn(100);
    take_a_certain_sample();
    for (int i = 0; i < 32; i++) free(bare_malloc(64 << 20, area + STACK + i * 2048, malloc));
}

__attribute__((noinline)) static void call_on(void *top, void (*function)(void)) {
    /* rbx is kept by the callee, so it brings the old stack pointer back. */
    __asm__ volatile(
        "mov %%rsp, %%rbx\n mov %0, %%rsp\n call *%1\n mov %%rbx, %%rsp"
        :
        : "r"(top), "r"(function)
        : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void *thread(void *is_unmapped) {
    call_on(area + STACK, allocate);
    call_on(area + 2 * STACK, allocate);
    if (is_unmapped) {
        CHECK(munmap(area + STACK, STACK) == 0);
    } else {
        CHECK(mprotect(area + STACK, STACK, PROT_NONE) == 0);
    }
    call_on(area + STACK, allocate);
    return NULL;
}

int main(void) {
    for (size_t way = 0; way < 2; way++) {
        area = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_t other;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, area + 2 * STACK, STACK);
        CHECK(pthread_create(&other, &attributes, thread, (void *)way) == 0);
        CHECK(pthread_join(other, NULL) == 0);
        puts(way ? "unmapped" : "unreadable");
        fflush(stdout);
    }
    return 0;
}
