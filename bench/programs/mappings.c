// Maps and unmaps one mebibyte again and again, beside others that stay, and prints the nanoseconds of a pair.
//
//   mappings COUNT LIVE kernel|random      -> result PAIR_CPU_NS
//
// Where they lie: as the kernel chooses, or at random addresses, which V8 asks for.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BYTES (1l << 20)
#define ADDRESS_BITS 45

static int is_random;

static void *hint(void) {
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return is_random ? (void *)(state % (1ul << ADDRESS_BITS) / BYTES * BYTES) : NULL;
}

static void *map(void) {
    void *start = mmap(hint(), BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        exit((perror("mappings: mmap"), 1));
    return start;
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return fprintf(stderr, "usage: mappings COUNT LIVE kernel|random\n"), 2;
    long count = atol(argv[1]);
    is_random = strcmp(argv[3], "random") == 0;
    for (long live = atol(argv[2]); live > 0; live--)
        map();
    double start = now_ns();
    for (long i = 0; i < count; i++)
        munmap(map(), BYTES);
    printf("result %.1f\n", (now_ns() - start) / count);
}
