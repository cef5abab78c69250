// A preload library that gives redis the same random bytes each time: its hash seed decides whether the names of two
// commands collide, which is 2 % of a GET.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef FILE *open_function(const char *path, const char *mode);

static FILE *open_other(const char *name, const char *path, const char *mode) {
    open_function *next = (open_function *)dlsym(RTLD_NEXT, name);
    return next(strcmp(path, "/dev/urandom") == 0 ? "/dev/zero" : path, mode);
}

FILE *fopen(const char *path, const char *mode) { return open_other("fopen", path, mode); }

FILE *fopen64(const char *path, const char *mode) { return open_other("fopen64", path, mode); }
