/* Double and invalid frees, each in a child of its own: the same abort with the same message as without ramson.
   allocators: glibc (the others do not check, so anything may happen)
   representative */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *volatile block;

static void twice(size_t size) {
    block = malloc(size);
    free(block);
    free(block);
}
static void twice_with_others_between(size_t size) {
    char *volatile blocks[20];
    for (int i = 0; i < 20; i++) blocks[i] = malloc(size);
    for (int i = 0; i < 20; i++) free(blocks[i]);
    free(blocks[15]);
}
static void inside(size_t size) {
    block = malloc(size);
    free(block + 16);
}
static void unaligned(size_t size) {
    block = malloc(size);
    free(block + 3);
}
static void on_stack(size_t size) {
    char local[256];
    block = local + (16 - (unsigned long)local % 16) + 32;
    memset(local, 0, sizeof local);
    free(block);
}
static void realloc_of_freed(size_t size) {
    block = malloc(size);
    free(block);
    block = realloc(block - 8, size * 2);
}
static void overrun(size_t size) {
    block = malloc(size);
    char *volatile next = malloc(size);
    memset(block, 0xff, malloc_usable_size(block) + 16);
    free(next);
    free(block);
}

static void in_child(const char *name, void (*wrong)(size_t), size_t size) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) free(malloc(i * 10));
        wrong(size);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%s, %zu bytes: signal %d\n", name, size, status & 0x7f);
}

int main(void) {
    for (size_t size = 40; size < 1000000; size *= 11) {
        in_child("twice", twice, size);
        in_child("twice, others between", twice_with_others_between, size);
        in_child("inside", inside, size);
        in_child("unaligned", unaligned, size);
        in_child("on the stack", on_stack, size);
        in_child("realloc of a freed one", realloc_of_freed, size);
        /* Behind a block that is mapped by itself lies whatever the kernel put there. */
        if (size < 100000) in_child("overrun", overrun, size);
    }
    return 0;
}
