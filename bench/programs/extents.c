// Maps and unmaps again and again, beside mebibytes that stay, and prints the nanoseconds of a pair.
//
//   extents COUNT LIVE kernel|random|small|unmap      -> result PAIR_CPU_NS
//
// A mebibyte lies where the kernel chooses, or at random addresses, which V8 asks for. Or 64 KiB, which ramson does not record;
// unmap: only unmapped, again and again.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MIB (1l << 20)
#define ADDRESS_BITS 45

static int is_random;

static void *hint(void) {
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return is_random ? (void *)(state % (1ul << ADDRESS_BITS) / MIB * MIB) : NULL;
}

static void *map(long bytes) {
    void *start = mmap(hint(), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        exit((perror("extents: mmap"), 1));
    return start;
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return fprintf(stderr, "usage: extents COUNT LIVE kernel|random|small|unmap\n"), 2;
    long count = atol(argv[1]);
    const char *mode = argv[3];
    is_random = strcmp(mode, "random") == 0;
    for (long live = atol(argv[2]); live > 0; live--)
        map(MIB);
    long bytes = is_random || strcmp(mode, "kernel") == 0 ? MIB : 65536;
    double start = now_ns();
    if (strcmp(mode, "unmap") == 0) {
        void *place = map(bytes);
        for (long i = 0; i < count; i++)
            munmap(place, bytes);
    } else {
        for (long i = 0; i < count; i++)
            munmap(map(bytes), bytes);
    }
    printf("result %.1f\n", (now_ns() - start) / count);
}
