// A thread that allocates at a steady pace, from changing places: paced SECONDS. Every 200 µs it frees a block of 1 MiB and takes another: of ten
// nine are samples at an interval of 512 KiB. Prints the number of pairs, those that took over 1 ms, over 10 ms, and the longest, µs.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 2048
#define BLOCK_BYTES (1l << 20)
#define PLACES 60
#define PAUSE_US 200

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

static __attribute__((noipa)) void *allocate(int depth) {
    void *volatile block = depth == 0 ? malloc(BLOCK_BYTES) : allocate(depth - 1);
    return block;
}

int main(int count, char **arguments) {
    static void *blocks[BLOCKS];
    double longest = 0, end = now_us() + (count > 1 ? atof(arguments[1]) : 5) * 1e6;
    long pairs = 0, over_1 = 0, over_10 = 0;
    while (now_us() < end) {
        void **block = &blocks[pairs % BLOCKS];
        double start = now_us();
        free(*block);
        *block = allocate(pairs % PLACES);
        double took = now_us() - start;
        pairs++;
        over_1 += took > 1e3;
        over_10 += took > 1e4;
        if (took > longest) longest = took;
        usleep(PAUSE_US);
    }
    printf("result %ld %ld %ld %.1f\n", pairs, over_1, over_10, longest);
}
