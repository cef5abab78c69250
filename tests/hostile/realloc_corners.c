/* realloc in all its corners: NULL, zero, shrinking, growing in place, moving, failing, and reallocarray's overflow; contents,
   errno and the old block must be what they are without ramson.
   varies-attached: place:
   representative */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(char *block, size_t size) {
    for (size_t i = 0; i < size; i++) block[i] = (char)(i * 31 + size);
}
static int holds(const char *block, size_t filled, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != (char)(i * 31 + filled)) return 0;
    return 1;
}

static void change(const char *name, size_t from, size_t to) {
    char *old = malloc(from);
    uintptr_t before = (uintptr_t)old;
    fill(old, from);
    errno = 77;
    char *new = realloc(old, to);
    int error = errno;
    /* Large blocks grow in place where the kernel happens to have left room behind them. */
    int is_small = from < 8192 && to < 8192;
    printf("%s %zu to %zu: %s, errno %d, contents %d\n", name, from, to, new ? "memory" : "NULL", error,
           new ? holds(new, from, from < to ? from : to) : to == 0 || holds(old, from, from));
    /* The memory that the allocator has free at that moment decides these. */
    printf("place: %s, usable %zu\n", !new ? "none" : !is_small ? "any" : (uintptr_t)new == before ? "the same" : "another",
           new ? malloc_usable_size(new) : 0);
    free(new || to == 0 ? new : old);
}

int main(void) {
    volatile size_t huge[] = {PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 8, SIZE_MAX};
    for (int round = 0; round < 20; round++) {
        for (size_t size = 1; size < 3000000; size = size * 5 + 3) {
            change("shrink", size, size / 2);
            change("same", size, size);
            change("grow", size, size + 1);
            change("grow", size, size * 4);
            change("zero", size, 0);
            for (int i = 0; i < 4; i++) change("huge", size, huge[i]);
        }
        char *step = NULL;
        for (size_t size = 1; size < 200000; size += 997) {
            char *next = realloc(step, size);
            if (size > 997 && next[size - 998] != 5) puts("lost");
            next[size - 1] = 5;
            step = next;
        }
        free(step);
        void *of_nothing = realloc(NULL, 0);
        printf("realloc(NULL, 0): %d\n", of_nothing != NULL);
        free(of_nothing);
        char *array = malloc(64);
        fill(array, 64);
        errno = 0;
        volatile size_t many = SIZE_MAX / 8 + 2;
        printf("reallocarray overflows: %p %d %d\n", reallocarray(array, many, 8), errno, holds(array, 64, 64));
        errno = 0;
        printf("reallocarray overflows from NULL: %p %d\n", reallocarray(NULL, 8, many), errno);
        array = reallocarray(array, 100, 30);
        printf("reallocarray: %d %zu\n", holds(array, 64, 64), malloc_usable_size(array));
        printf("reallocarray to nothing: %d\n", reallocarray(array, 0, 30) != NULL);
    }
    return 0;
}
