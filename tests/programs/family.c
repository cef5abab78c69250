/* Every function of the malloc family: each site allocates two objects of its own size and frees one. Sites that need a
   word of their own say it. What a result must be is checked here; how it was counted is checked outside. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

static void *volatile kept;
static int failures;

#define CHECK(truth) \
    do { \
        if (!(truth)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #truth); \
            failures++; \
        } \
    } while (0)

#define SITE(name) __attribute__((noinline, noclone)) static void name(void)
#define PAIR(name, size, expression) \
    SITE(name) { \
        void *first = (expression), *second = (expression); \
        CHECK(first && second); \
        memset(first, 1, size); \
        memset(second, 1, size); \
        free(first); \
        kept = second; \
    }

static void *posix_aligned(size_t alignment, size_t size) {
    void *result = NULL;
    CHECK(posix_memalign(&result, alignment, size) == 0);
    CHECK((uintptr_t)result % alignment == 0);
    return result;
}

PAIR(site_malloc, 1001, malloc(1001))
PAIR(site_calloc, 7 * 143, calloc(7, 143))
PAIR(site_realloc_of_null, 1002, realloc(NULL, 1002))
PAIR(site_reallocarray_of_null, 3 * 335, reallocarray(NULL, 3, 335))
PAIR(site_posix_memalign, 1006, posix_aligned(64, 1006))
PAIR(site_aligned_alloc, 1024, aligned_alloc(256, 1024))
PAIR(site_memalign, 1008, memalign(4096, 1008))
PAIR(site_valloc, 1009, valloc(1009))
PAIR(site_pvalloc, 1010, pvalloc(1010))

SITE(site_free_sized) {
    CHECK(free_sized && free_aligned_sized);
    void *first = malloc(1011), *second = malloc(1011), *third = malloc(1011);
    free_sized(first, 1011);
    free_aligned_sized(second, 16, 1011);
    free_sized(NULL, 0);
    kept = third;
}

SITE(site_free_null) {
    for (int i = 0; i < 100; i++) free(NULL);
    kept = malloc(1012);
}

SITE(site_zero) {
    /* No bytes: nothing to record, whatever the allocator returns. */
    for (int i = 0; i < 10; i++) free(malloc(0));
    free(calloc(0, 8));
    free(realloc(NULL, 0));
    kept = malloc(1013);
}

SITE(site_grow) {
    char *block = malloc(2001);
    memset(block, 7, 2001);
    block = realloc(block, 200001);
    CHECK(block[0] == 7 && block[2000] == 7);
    kept = block;
}

SITE(site_shrink) {
    char *block = malloc(200002);
    block[0] = 7;
    block = realloc(block, 2002);
    CHECK(block[0] == 7);
    kept = block;
}

SITE(site_realloc_to_zero) {
    /* glibc frees. */
    void *block = malloc(2003);
    void *result = realloc(block, 0);
    CHECK(result == NULL);
    kept = malloc(2004);
}

SITE(site_realloc_fails) {
    char *block = malloc(2005);
    block[0] = 7;
    errno = 0;
    CHECK(realloc(block, SIZE_MAX) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(realloc(block, (size_t)1 << 62) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(block, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    CHECK(block[0] == 7);
    kept = block;
}

SITE(site_huge_fails) {
    volatile size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)1 << 63, ((size_t)1 << 63) - 1, (size_t)1 << 62};
    for (int i = 0; i < 5; i++) {
        errno = 0;
        CHECK(malloc(sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(calloc(1, sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(realloc(NULL, sizes[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(memalign(64, sizes[i]) == NULL && errno == ENOMEM);
        void *result = (void *)42;
        CHECK(posix_memalign(&result, 64, sizes[i]) == ENOMEM && result == (void *)42);
    }
    volatile size_t many = SIZE_MAX / 2;
    errno = 0;
    CHECK(calloc(many, 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(reallocarray(NULL, many, 3) == NULL && errno == ENOMEM);
    void *result = (void *)42;
    CHECK(posix_memalign(&result, 3, 100) == EINVAL && result == (void *)42);
    /* And sampling goes on. */
    kept = malloc(2006);
}

SITE(site_errno) {
    for (int i = 1; i < 2000; i++) {
        errno = i;
        void *block = malloc(2007);
        CHECK(errno == i);
        block = realloc(block, 2008);
        CHECK(errno == i);
        free(block);
        CHECK(errno == i);
        block = calloc(1, 2009);
        CHECK(errno == i);
        free(block);
        CHECK(errno == i);
    }
}

/* Deep enough to leave what the walker has seen of the stack. */
__attribute__((noinline, noclone)) static int errno_when_deep(int depth) {
    volatile char frame[20000];
    frame[0] = (char)depth;
    errno = 77;
    free(malloc(2010));
    CHECK(errno == 77);
    return depth == 0 ? frame[0] : errno_when_deep(depth - 1) + frame[0];
}

int main(void) {
    site_malloc();
    site_calloc();
    site_realloc_of_null();
    site_reallocarray_of_null();
    site_posix_memalign();
    site_aligned_alloc();
    site_memalign();
    site_valloc();
    site_pvalloc();
    site_free_sized();
    site_free_null();
    site_zero();
    site_grow();
    site_shrink();
    site_realloc_to_zero();
    site_realloc_fails();
    site_huge_fails();
    site_errno();
    errno_when_deep(100);
    return failures != 0;
}
