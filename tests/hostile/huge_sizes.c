/* Sizes that no allocator can give, and products that overflow: NULL, the same errno, and allocations go on.
   representative */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *name, size_t size, void *block, int error) {
    printf("%s %zx: %s, errno %d\n", name, size, block ? "memory" : "NULL", error);
    free(block);
}

#define TRY(call) \
    do { \
        errno = 0; \
        void *block = call; \
        say(#call, size, block, errno); \
    } while (0)

int main(void) {
    volatile size_t sizes[] = {PTRDIFF_MAX - 4096, PTRDIFF_MAX, (size_t)PTRDIFF_MAX + 1, (size_t)1 << 62, (size_t)1 << 48,
                               SIZE_MAX - 4096, SIZE_MAX - 15, SIZE_MAX - 1, SIZE_MAX, 0};
    for (int i = 0; i < 10; i++) {
        size_t size = sizes[i];
        TRY(malloc(size));
        TRY(calloc(1, size));
        TRY(calloc(size, 1));
        TRY(calloc(size, size));
        TRY(calloc(size, 2));
        TRY(calloc(0, size));
        TRY(realloc(NULL, size));
        TRY(reallocarray(NULL, size, 3));
        TRY(memalign(64, size));
        TRY(aligned_alloc(64, size));
        TRY(valloc(size));
        void *untouched = &untouched;
        errno = 55;
        int status = posix_memalign(&untouched, 64, size);
        printf("posix_memalign %zx: %d, errno %d, result %s\n", size, status, errno,
               untouched == &untouched ? "untouched" : untouched ? "memory" : "NULL");
        if (status == 0) free(untouched);
        for (int size = 0; size < 3000; size++) free(malloc(size));
    }
    return 0;
}
