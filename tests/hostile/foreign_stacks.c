/* The stack pointer moved by hand: to mapped memory whose top is the last byte before nothing, to a block of malloc, to a
   static array, to memory of another thread's stack; split in two halves far apart; with a hole in the middle. */
#include "hostile.h"
#include <pthread.h>
#include <sys/mman.h>

enum { STACK = 64 << 10 };
static _Alignas(16) char array[STACK];

static void allocate(void) {
    churn(50);
    free(used(3 << 20));
}

__attribute__((noinline)) static void call_on(void *top, void (*function)(void)) {
    /* rbx is kept by the callee, so it brings the old stack pointer back. */
    __asm__ volatile(
        "mov %%rsp, %%rbx\n mov %0, %%rsp\n call *%1\n mov %%rbx, %%rsp"
        :
        : "r"(top), "r"(function)
        : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void *map(size_t bytes, int protection) {
    char *area = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area + 4096, bytes, protection) == 0);
    return area + 4096;
}

static void *second_half;
static void split(void) {
    allocate();
    call_on(second_half, allocate);
    allocate();
}

static void *thread(void *top) {
    call_on(top, allocate);
    return NULL;
}

int main(void) {
    char *mapped = map(STACK, PROT_READ | PROT_WRITE), *other = map(STACK, PROT_READ | PROT_WRITE), *block = used(STACK);
    call_on(mapped + STACK, allocate);
    puts("mapped, to its last byte");
    call_on((void *)((size_t)(block + STACK) & ~15ul), allocate);
    puts("malloc");
    call_on(array + STACK, allocate);
    puts("static");
    second_half = other + STACK;
    call_on(mapped + STACK, split);
    puts("split");
    /* Above the stack in use there is a page that cannot be read. */
    CHECK(mprotect(mapped + STACK - 4096, 4096, PROT_NONE) == 0);
    call_on(mapped + STACK - 4096, split);
    puts("below a hole");
    pthread_t threads[2];
    char on_this_stack[STACK];
    pthread_create(&threads[0], NULL, thread, (void *)((size_t)(on_this_stack + STACK) & ~15ul));
    pthread_create(&threads[1], NULL, thread, other + STACK);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    puts("of another thread");
    free(block);
    return 0;
}
