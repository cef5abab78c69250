// An allocator of the program's own, in assembly, that changes no register but rax and those that it says; it is called with all registers
// filled, and they are looked at afterwards.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

char *next;

__asm__(
    ".text\n"
    ".macro function name\n .globl \\name\n .type \\name, @function\n .p2align 4\n\\name:\n.endm\n"
    ".macro done name\n .size \\name, . - \\name\n.endm\n"
    ".macro take register\n"
    " movq next(%rip), %rax\n addq \\register, next(%rip)\n addq $31, next(%rip)\n andq $-16, next(%rip)\n"
    ".endm\n"
    "function malloc\n take %rdi\n ret\ndone malloc\n"
    // Begins with a push, and has a jump among the instructions that have to move.
    "function free\n pushq %rbx\n testq %rdi, %rdi\n je 1f\n incq freed(%rip)\n1: popq %rbx\n ret\ndone free\n"
    // Begins with a comparison whose flags the next instruction reads.
    "function realloc\n testq %rsi, %rsi\n je 2f\n take %rsi\n ret\n2: xorl %eax, %eax\n ret\ndone realloc\n"
    // Takes stack first.
    "function calloc\n subq $24, %rsp\n movq %rdi, (%rsp)\n imulq %rsi, %rdi\n take %rdi\n movq (%rsp), %rdi\n addq $24, %rsp\n ret\ndone calloc\n"
    "function posix_memalign\n leaq (%rsi,%rdx), %rax\n addq %rax, next(%rip)\n movq next(%rip), %rax\n negq %rsi\n andq %rsi, %rax\n"
    " negq %rsi\n movq %rax, (%rdi)\n addq %rdx, next(%rip)\n xorl %eax, %eax\n ret\ndone posix_memalign\n"
    // A jump is all there is of it.
    "function cfree\n jmp free\ndone cfree\n"
    "function call_filled\n"
    " pushq %rbx\n pushq %rbp\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n subq $8, %rsp\n"
    " movq filled+0(%rip), %rcx\n movq filled+8(%rip), %r8\n movq filled+16(%rip), %r9\n movq filled+24(%rip), %r10\n"
    " movq filled+32(%rip), %r11\n movq filled+40(%rip), %rbx\n movq filled+48(%rip), %rbp\n movq filled+56(%rip), %r12\n"
    " movq filled+64(%rip), %r13\n movq filled+72(%rip), %r14\n movq filled+80(%rip), %r15\n"
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu filled_vectors+16*\\n(%rip), %xmm\\n\n.endr\n"
    " call *target(%rip)\n"
    " movq %rcx, left+0(%rip)\n movq %r8, left+8(%rip)\n movq %r9, left+16(%rip)\n movq %r10, left+24(%rip)\n"
    " movq %r11, left+32(%rip)\n movq %rbx, left+40(%rip)\n movq %rbp, left+48(%rip)\n movq %r12, left+56(%rip)\n"
    " movq %r13, left+64(%rip)\n movq %r14, left+72(%rip)\n movq %r15, left+80(%rip)\n"
    " movq %rdi, left+88(%rip)\n movq %rsi, left+96(%rip)\n movq %rdx, left+104(%rip)\n"
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %xmm\\n, left_vectors+16*\\n(%rip)\n.endr\n"
    " addq $8, %rsp\n popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbp\n popq %rbx\n ret\ndone call_filled\n");

uint64_t freed, filled[11], left[14];
uint8_t filled_vectors[256], left_vectors[256];
void *target;
void *call_filled(uint64_t first, uint64_t second, uint64_t third);
void cfree(void *);

static int failures;

__attribute__((noinline)) static void *called(const char *name, void *function, uint64_t first, uint64_t second, uint64_t third) {
    for (int i = 0; i < 11; i++)
        filled[i] = 0x0101010101010101u * (uint64_t)(i + 1) ^ (uint64_t)rand() << 33;
    for (int i = 0; i < 256; i++)
        filled_vectors[i] = (uint8_t)rand();
    target = function;
    void *result = call_filled(first, second, third);
    uint64_t arguments[] = {first, second, third};
    if (memcmp(left, filled, sizeof filled) || memcmp(left + 11, arguments, sizeof arguments) ||
        memcmp(left_vectors, filled_vectors, sizeof filled_vectors)) {
        printf("%s left another register\n", name);
        failures++;
    }
    return result;
}

__attribute__((constructor(101))) static void begin(void) {
    next = mmap(NULL, 256 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

#ifdef GOOGLE_TCMALLOC
void MallocExtension_Internal_GetStats(void) {}
#endif

int main(void) {
    for (int round = 0; round < 300; round++) {
        uint64_t size = 100 + (uint64_t)round;
        void *block = called("malloc", malloc, size, 1, 2);
        memset(block, 1, size);
        void *moved = called("realloc", realloc, (uint64_t)block, 2 * size, 3);
        memset(moved, 2, 2 * size);
        called("free", free, (uint64_t)moved, 4, 5);
        void *zeroes = called("calloc", calloc, 3, size, 6);
        called("cfree", cfree, (uint64_t)zeroes, 7, 8);
        void *aligned = NULL;
        called("posix_memalign", posix_memalign, (uint64_t)&aligned, 64, size);
        if ((uint64_t)aligned % 64 || called("realloc to nothing", realloc, (uint64_t)aligned, 0, 9))
            failures++;
    }
    printf("%d failures, %llu freed\n", failures, (unsigned long long)freed);
    return failures != 0;
}
