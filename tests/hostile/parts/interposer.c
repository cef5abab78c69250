/* Another library that interposes the malloc family, in the usual way: dlsym at the first call, and a small buffer for what
   dlsym itself allocates meanwhile. Tells at the end how often it was called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char early[65536];
static size_t early_used;
static atomic_long calls[5];
static void *(*real_malloc)(size_t);
static void (*real_free)(void *);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static __thread int is_resolving;

static int is_early(void *address) { return (char *)address >= early && (char *)address < early + sizeof early; }

static void *early_memory(size_t size) {
    char *block = early + early_used;
    early_used += (size + 15) & ~(size_t)15;
    if (early_used > sizeof early) abort();
    return block;
}

static void resolve(void) {
    if (real_malloc || is_resolving) return;
    is_resolving = 1;
    free(dlsym(RTLD_NEXT, "no such function")); /* dlerror's message is allocated inside dlsym. */
    real_free = dlsym(RTLD_NEXT, "free");
    real_calloc = dlsym(RTLD_NEXT, "calloc");
    real_realloc = dlsym(RTLD_NEXT, "realloc");
    real_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    real_malloc = dlsym(RTLD_NEXT, "malloc");
    is_resolving = 0;
}

void *malloc(size_t size) {
    resolve();
    if (is_resolving) return early_memory(size);
    calls[0]++;
    return real_malloc(size);
}

void free(void *address) {
    if (!address || is_early(address)) return;
    calls[1]++;
    real_free(address);
}

void *calloc(size_t count, size_t size) {
    resolve();
    if (is_resolving) return early_memory(count * size);
    calls[2]++;
    return real_calloc(count, size);
}

void *realloc(void *address, size_t size) {
    resolve();
    if (is_resolving || is_early(address)) {
        void *block = malloc(size);
        size_t room = early + sizeof early - (char *)address;
        if (block && address) memcpy(block, address, size < room ? size : room);
        return block;
    }
    calls[3]++;
    return real_realloc(address, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    resolve();
    calls[4]++;
    return real_posix_memalign(result, alignment, size);
}

__attribute__((destructor)) static void tell(void) {
    char text[200];
    int length = snprintf(text, sizeof text, "interposer: %ld malloc %ld free %ld calloc %ld realloc %ld posix_memalign\n",
                          calls[0], calls[1], calls[2], calls[3], calls[4]);
    write(1, text, length);
}
