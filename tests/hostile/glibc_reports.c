/* Reports of glibc on its heap must be the same to the byte: mallinfo2, malloc_info, malloc_stats, malloc_trim, mallopt, and where
   in the heap each block lies. So ramson leaves no trace there.
   allocators: glibc (these are its own)
   representative */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char buffer[65536];

static void say(const char *when) {
    struct mallinfo2 info = mallinfo2();
    printf("%s: %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu\n", when, info.arena, info.ordblks, info.smblks, info.hblks, info.hblkhd,
           info.usmblks, info.fsmblks, info.uordblks, info.fordblks, info.keepcost);
}

int main(void) {
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    say("start");
    printf("mallopt: %d %d %d %d\n", mallopt(M_MXFAST, 64), mallopt(M_MMAP_THRESHOLD, 200000), mallopt(M_TOP_PAD, 8192),
           mallopt(12345, 1));
    static char *blocks[2000];
    for (int i = 0; i < 2000; i++) blocks[i] = malloc((size_t)i * i % 50000 * (i % 50 ? 1 : 40));
    say("full");
    for (int i = 0; i < 2000; i += 97) {
        uintptr_t offset = (uintptr_t)blocks[i] - (uintptr_t)blocks[1];
        if (offset < 1u << 30) printf("%d at %lx\n", i, offset);
    }
    for (int i = 0; i < 2000; i += 2) free(blocks[i]);
    say("half");
    printf("malloc_trim: %d\n", malloc_trim(0));
    for (int i = 1; i < 2000; i += 2) free(blocks[i]);
    say("empty");
    printf("malloc_trim: %d\n", malloc_trim(0));
    malloc_info(0, stdout);
    malloc_stats();
    return 0;
}
