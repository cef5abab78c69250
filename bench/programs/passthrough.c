// A preload library that only passes malloc and free on: the floor for every interposer. For `loop` only: it relies on a
// dlsym that does not allocate when it succeeds, as glibc's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *malloc_first(size_t size);
static void free_first(void *block);

static void *(*next_malloc)(size_t) = malloc_first;
static void (*next_free)(void *) = free_first;

static void *malloc_first(size_t size) {
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return next_malloc(size);
}

static void free_first(void *block) {
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next_free(block);
}

void *malloc(size_t size) { return next_malloc(size); }

void free(void *block) { next_free(block); }
