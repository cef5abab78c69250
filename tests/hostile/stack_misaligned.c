/* Hooks called with a stack pointer that is not a multiple of 16 before the call, as hand-written assembly and compilers with another
   boundary do. The C library's own functions do not mind. (The stubs that bind the hooks have run before main.)
   allocators: glibc (the others use instructions that do mind)
   representative */
#include "hostile.h"
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* function(a, b, c, d, e, f) eight bytes beside the boundary. */
long misaligned(void *function, ...);
__asm__(
    ".text\n"
    ".globl misaligned\n"
    "misaligned:\n"
    "push %rbp\n"
    "mov %rsp, %rbp\n"
    "mov %rdi, %r11\n"
    "mov %rsi, %rdi\n"
    "mov %rdx, %rsi\n"
    "mov %rcx, %rdx\n"
    "mov %r8, %rcx\n"
    "mov %r9, %r8\n"
    "mov 16(%rbp), %r9\n"
    "and $-16, %rsp\n"
    "sub $8, %rsp\n"
    "xor %eax, %eax\n"
    "call *%r11\n"
    "leave\n"
    "ret\n");

static void allocate(size_t bytes) {
    char *block = (char *)misaligned(malloc, bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    block = (char *)misaligned(realloc, block, bytes * 2);
    CHECK(block != NULL && block[bytes - 1] == 1);
    misaligned(free, block);
    block = (char *)misaligned(calloc, bytes, 2L);
    CHECK(block != NULL && block[2 * bytes - 1] == 0);
    misaligned(free, block);
    void *aligned = NULL;
    CHECK(misaligned(posix_memalign, &aligned, 4096L, bytes) == 0 && (size_t)aligned % 4096 == 0);
    misaligned(free, aligned);
    misaligned(free, misaligned(memalign, 64L, bytes));
}

static void map(size_t bytes) {
    long flags = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
    char *block = (char *)misaligned(mmap, NULL, bytes, both, flags, -1L, 0L);
    CHECK(block != MAP_FAILED);
    block = (char *)misaligned(mremap, block, bytes, 2 * bytes, (long)MREMAP_MAYMOVE, 0L, 0L);
    CHECK(block != MAP_FAILED);
    block[2 * bytes - 1] = 1;
    CHECK(misaligned(munmap, block, 2 * bytes) == 0);
}

/* An allocation is the first that ramson hears of, or a mapping, or an exit; each in a process of its own. */
static void begin(int with) {
    if (with == 1) map(2 << 20);
    if (with == 2) misaligned(_exit, 3L);
    for (size_t bytes = 1; bytes < 64 << 20; bytes *= 4) {
        allocate(bytes);
        map(bytes + 4096);
    }
    /* PR_SET_TSC to what it is, by both ways in. */
    CHECK(misaligned(prctl, (long)PR_SET_TSC, (long)PR_TSC_ENABLE, 0L, 0L, 0L) == 0);
    CHECK(misaligned(syscall, (long)SYS_prctl, (long)PR_SET_TSC, (long)PR_TSC_ENABLE, 0L, 0L) == 0);
    misaligned(_exit, 4L);
}

int main(void) {
    for (int with = 0; with < 3; with++) {
        pid_t child = fork();
        if (child == 0) begin(with);
        printf("%d: %d\n", with, status_of(child));
    }
    return 0;
}
