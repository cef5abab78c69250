// For ramson itself, preloaded: the memory of no process can be opened, as where the kernel (Yama) gives no right to trace.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    size_t length = strlen(path);
    if (strncmp(path, "/proc/", 6) == 0 && strcmp(path + length - 4, "/mem") == 0) {
        errno = EACCES;
        return -1;
    }
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64"))(path, flags, mode);
}
