/* Holds 100 MiB that malloc does not know of, and 4 MiB that it does; with STATIC_ALLOCATOR the 100 MiB come from an allocator in the
   executable, with LIBRARY and PROGRAM from one in a library. Says "ready" and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef STATIC_ALLOCATOR
#define pool je_malloc
#endif

void *pool(size_t size);

#ifndef PROGRAM
#ifdef LIBRARY
const char text[] = "<jemalloc>: Error in munmap(): %s\n";
#endif
__attribute__((noinline)) void *pool(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
#endif

#ifndef LIBRARY
int main(void) {
    memset(malloc(4 << 20), 1, 4 << 20);
    memset(pool(100 << 20), 1, 100 << 20);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
#endif
