// Every function of a jemalloc that is linked into the executable: each site allocates two blocks of its own size, and frees one.
// At the end it prints what jemalloc itself says is allocated.
#include <jemalloc/jemalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Blocks in caches of threads count as allocated.
const char *malloc_conf = "tcache:false";
static void *volatile kept;

#define SITE(name, size, allocate, deallocate) \
    __attribute__((noinline)) void name(void) { \
        void *first = (allocate); \
        void *pointer = (allocate); \
        memset(first, 1, size); \
        memset(pointer, 1, size); \
        deallocate; \
        kept = first; \
    }

static void *aligned(size_t alignment, size_t size) {
    void *block = NULL;
    return posix_memalign(&block, alignment, size) ? NULL : block;
}

static void *grown(size_t from, size_t to) {
    void *block = malloc(from);
    return realloc(block, to);
}

static void *grown_by_x(size_t from, size_t to) {
    void *block = mallocx(from, 0);
    return rallocx(block, to, 0);
}

SITE(site_malloc_call, 1001, malloc(1001), free(pointer))
SITE(site_calloc_call, 1008, calloc(8, 126), free(pointer))
SITE(site_aligned_call, 2048, aligned(512, 2048), free(pointer))
SITE(site_aligned_alloc_call, 4096, aligned_alloc(1024, 4096), free(pointer))
SITE(site_memalign_call, 3000, memalign(64, 3000), free(pointer))
// A class that valloc does not round up further.
SITE(site_valloc_call, 8000, valloc(8000), free(pointer))
SITE(site_mallocx_call, 6000, mallocx(6000, MALLOCX_ALIGN(256) | MALLOCX_ZERO), dallocx(pointer, 0))
SITE(site_sdallocx_call, 7000, mallocx(7000, 0), sdallocx(pointer, 7000, 0))
SITE(site_grown_call, 9000, grown(100, 9000), free(pointer))
SITE(site_grown_by_x_call, 11000, grown_by_x(200, 11000), sdallocx(pointer, 11000, 0))
// Stays where it is.
SITE(site_grown_in_place_call, 13000, grown(12900, 13000), free(pointer))
SITE(site_freed_by_realloc_call, 14000, malloc(14000), kept = realloc(pointer, 0))

__attribute__((noinline)) void site_failed_realloc_call(void) {
    void *block = malloc(15000);
    if (realloc(block, PTRDIFF_MAX - 1))
        printf("an impossible realloc succeeded\n");
    kept = block;
}

int main(void) {
    // Its buffer would be allocated after the count.
    setvbuf(stdout, NULL, _IONBF, 0);
    site_malloc_call();
    site_calloc_call();
    site_aligned_call();
    site_aligned_alloc_call();
    site_memalign_call();
    site_valloc_call();
    site_mallocx_call();
    site_sdallocx_call();
    site_grown_call();
    site_grown_by_x_call();
    site_grown_in_place_call();
    site_freed_by_realloc_call();
    site_failed_realloc_call();
    uint64_t epoch = 1;
    size_t allocated, bytes = sizeof allocated;
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    mallctl("stats.allocated", &allocated, &bytes, NULL, 0);
    printf("allocated %zu\n", allocated);
    return 0;
}
