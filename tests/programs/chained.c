// A mimalloc of four functions that lead to each other: a call, and a jump that is too short to be led elsewhere. With FREE_CALLS nothing of
// its free can move; with TEXT_RELOCATIONS the loader changes its code.
#include <stdio.h>
#include <string.h>

__asm__(
    ".text\n"
    ".macro function name\n .globl \\name\n .type \\name, @function\n .p2align 4\n\\name:\n.endm\n"
    ".macro done name\n .size \\name, . - \\name\n.endm\n"
    "function mi_calloc\n pushq %rbx\n imulq %rsi, %rdi\n xorl %eax, %eax\n nop\n nop\n call mi_zalloc\n popq %rbx\n ret\ndone mi_calloc\n"
    "function mi_zalloc\n nop\n movl $1, %eax\n nop\n nop\n testq %rdi, %rdi\n jmp mi_malloc\ndone mi_zalloc\n"
    "function mi_malloc\n pushq %rbx\n movl $1, %eax\n nop\n nop\n call take\n popq %rbx\n ret\ndone mi_malloc\n"
#ifdef FREE_CALLS
    "function mi_free\n call give_back\n ret\ndone mi_free\n"
#elif defined TEXT_RELOCATIONS
    "function mi_free\n pushq %rbx\n movabsq $freed, %rax\n incl (%rax)\n popq %rbx\n ret\ndone mi_free\n"
#else
    "function mi_free\n pushq %rbx\n movl $1, %eax\n nop\n call give_back\n popq %rbx\n ret\ndone mi_free\n"
#endif
);

int freed;
void *mi_malloc(size_t), *mi_zalloc(size_t), *mi_calloc(size_t, size_t);
void mi_free(void *);
// The linker keeps it: an allocator asks the kernel for memory.
void *mmap(void *, size_t, int, int, int, long);
void *(*volatile asks)(void *, size_t, int, int, int, long) = mmap;

__attribute__((used)) static void *take(size_t size) {
    static char memory[1 << 20];
    static size_t used;
    void *block = memory + used;
    used += (size + 15) & ~15ul;
    return block;
}

__attribute__((used)) static void give_back(void *block) { freed += block != NULL; }

__attribute__((noinline)) static void *site_malloc(void) { void *block = mi_malloc(1001); return mi_free(mi_malloc(1001)), block; }
__attribute__((noinline)) static void *site_zalloc(void) { void *block = mi_zalloc(1002); return mi_free(mi_zalloc(1002)), block; }
__attribute__((noinline)) static void *site_calloc(void) { void *block = mi_calloc(3, 501); return mi_free(mi_calloc(3, 501)), block; }

int main(void) {
    char *blocks[] = {site_malloc(), site_zalloc(), site_calloc()};
    for (int i = 0; i < 3; i++) memset(blocks[i], 'a' + i, 1001);
    printf("%c%c%c %ld %ld %d\n", *blocks[0], *blocks[1], *blocks[2], (long)(blocks[1] - blocks[0]), (long)(blocks[2] - blocks[1]), freed);
    return 0;
}
