// A mimalloc of two functions. A signal interrupts it behind the second instruction, where an attach would move it from, and the signal's handler
// waits for a line. Prints what became of the block.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

__asm__(
    ".text\n"
    ".macro function name\n .globl \\name\n .type \\name, @function\n .p2align 4\n\\name:\n.endm\n"
    ".macro done name\n .size \\name, . - \\name\n.endm\n"
    "function mi_malloc\n pushq %rbx\n movq %rdi, %rbx\n .globl inside\ninside:\n nop\n nop\n nop\n nop\n call take\n popq %rbx\n ret\ndone mi_malloc\n"
    "function mi_free\n pushq %rbx\n movl $1, %eax\n nop\n call give_back\n popq %rbx\n ret\ndone mi_free\n"
);

void *mi_malloc(size_t);
void mi_free(void *);
extern char inside[];
void *mmap(void *, size_t, int, int, int, long);
void *(*volatile asks)(void *, size_t, int, int, int, long) = mmap;
static int freed;

__attribute__((used)) static void *take(size_t size) {
    static char memory[1 << 20];
    static size_t used;
    return used += (size + 15) & ~15ul, memory + used;
}

__attribute__((used)) static void give_back(void *block) { freed += block != NULL; }

// After each instruction.
static void trapped(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char line[64];
    if (registers[REG_RIP] != (greg_t)inside) return;
    printf("ready 1\n");
    fflush(stdout);
    if (read(0, line, sizeof line) < 1) _exit(1);
    registers[REG_EFL] &= ~0x100;
}

// An attach has its calls made here.
static void *wait_for_nothing(void *unused) { return pause(), unused; }

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_nothing, NULL);
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    char *block = mi_malloc(1001);
    block[1000] = 1;
    mi_free(block);
    printf("freed %d\n", freed);
    fflush(stdout);
    for (char line[64]; read(0, line, sizeof line) > 0;) {
        block = mi_malloc(1001);
        printf("taken %d\n", block != NULL);
        fflush(stdout);
    }
    return 0;
}
