/* Every power of two as an alignment, and every wrong one: status, errno and an untouched result as without ramson. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *name, size_t alignment, size_t size, char *block) {
    int error = errno;
    if (block) memset(block, 1, size);
    /* Wrong alignments promise nothing. */
    int is_aligned = (alignment & (alignment - 1)) == 0 && (uintptr_t)block % alignment == 0;
    printf("%s(%zu, %zu): %s%s, errno %d\n", name, alignment, size, block ? "memory" : "NULL", is_aligned ? ", aligned" : "", error);
    free(block);
}

int main(void) {
    static const size_t sizes[] = {0, 1, 63, 4096, 300000};
    for (int s = 0; s < 5; s++)
        for (int shift = 0; shift < 26; shift++)
            for (int wrong = 0; wrong < 2; wrong++) {
                size_t alignment = ((size_t)1 << shift) * (wrong ? 3 : 1), size = sizes[s];
                errno = 0;
                check("memalign", alignment, size, memalign(alignment, size));
                errno = 0;
                check("aligned_alloc", alignment, size, aligned_alloc(alignment, size));
                void *block = NULL;
                errno = 55;
                int status = posix_memalign(&block, alignment, size);
                printf("posix_memalign: %d ", status);
                check("", alignment, size, block);
            }
    /* Most of these are more than there is. Where the address space ends, it is a matter of luck. */
    for (int shift = 26; shift < 64; shift++) {
        if (shift >= 40 && shift < 48) continue;
        errno = 0;
        check("memalign", (size_t)1 << shift, 100, memalign((size_t)1 << shift, 100));
        void *block = NULL;
        int status = posix_memalign(&block, (size_t)1 << shift, 100);
        printf("posix_memalign: %d ", status);
        check("", (size_t)1 << shift, 100, block);
    }
    volatile size_t alignments[] = {0, 1, 2, 4, 7, 24, SIZE_MAX, (size_t)PTRDIFF_MAX + 1};
    for (int i = 0; i < 8; i++) {
        void *untouched = &untouched;
        errno = 66;
        int status = posix_memalign(&untouched, alignments[i], 100);
        printf("posix_memalign(%zx): %d, errno %d, %s\n", alignments[i], status, errno, untouched == &untouched ? "untouched" : "set");
        if (status == 0) free(untouched);
    }
    return 0;
}
