/* rewrites: makes the page of its read-only pointers writable, as libraries do that put hooks into tables of pointers, and leaves it so. Each line
   on standard input has it write to that page. To be linked with -z relro -z now. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *(*volatile pointer)(size_t) __attribute__((section(".data.rel.ro"))) = malloc;

int main(void) {
    char line[100];
    void *page = (void *)((unsigned long)&pointer & ~4095ul);
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE)) return 1;
    printf("ready 0\n");
    fflush(stdout);
    for (int times = 1; fgets(line, sizeof line, stdin); times++) {
        pointer = malloc;
        free(malloc(1000));
        printf("wrote %d\n", times);
        fflush(stdout);
    }
    return 42;
}
