/* malloc called from assembly without unwind tables and from code made at run time, while rbp and the words above the stack
   pointer lead nowhere: garbage, themselves, unmapped, unreadable, past the end of a mapped file, non-canonical, misaligned.
   representative */
#include "hostile.h"
#include <fcntl.h>
#include <sys/mman.h>

/* Calls the given malloc with that rbp. No .cfi directives: no tables cover it. */
typedef void *BareMalloc(size_t bytes, void *rbp, void *(*malloc)(size_t));
BareMalloc bare_malloc;
extern char bare_malloc_end[];
__asm__(
    ".pushsection .text.bare,\"ax\",@progbits\n"
    ".globl bare_malloc, bare_malloc_end\n"
    "bare_malloc:\n"
    "push %rbp\n"
    "mov %rsi, %rbp\n"
    "push %rbp\n"
    "push $-1\n"
    "push %rbp\n"
    "push $0\n"
    "call *%rdx\n"
    "add $32, %rsp\n"
    "pop %rbp\n"
    "ret\n"
    "bare_malloc_end:\n"
    ".popsection\n");

static void *page(int protection) {
    return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    /* A mapping of one page of which the file has nothing: reading there is SIGBUS. */
    char name[] = "past-the-end-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, 4096) == 0);
    char *past_end = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    CHECK(past_end != MAP_FAILED && ftruncate(file, 0) == 0);
    void **itself = page(PROT_READ | PROT_WRITE);
    itself[0] = itself;
    itself[1] = bare_malloc_end - 2;
    void **circle = page(PROT_READ | PROT_WRITE);
    circle[0] = circle + 10;
    circle[1] = (void *)puts;
    circle[10] = circle;
    circle[11] = (void *)puts;
    char *unmapped = page(PROT_NONE);
    munmap(unmapped, 4096);
    void *chains[] = {NULL, (void *)1, (void *)8, (void *)-1, (void *)-8, (void *)-16, (void *)0xdeadbeefdeadbeef,
        (void *)0x800000000000, unmapped, page(PROT_NONE), page(PROT_WRITE), page(PROT_EXEC), past_end, past_end + 4096,
        past_end + 8184, itself, (char *)itself + 1, (char *)itself + 4088, circle, (void *)main, &chains[0],
        (char *)&chains[0] - 4096, stdout};
    /* The same code where no object is. */
    size_t bytes = bare_malloc_end - (char *)bare_malloc;
    void *copy = page(PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(copy, (char *)bare_malloc, bytes);
    BareMalloc *made_at_run_time = (BareMalloc *)copy;
    int calls = 0;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof chains / sizeof *chains; i++, calls += 2) {
            void *first = bare_malloc(1 << 16, chains[i], malloc), *second = made_at_run_time(1 << 16, chains[i], malloc);
            CHECK(first && second);
            *(char *)first = *(char *)second = 1;
            free(first);
            free(second);
        }
    }
    printf("%d calls\n", calls);
    return 0;
}
