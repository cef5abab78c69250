// Allocates in a loop and prints the nanoseconds it took.
//
//   loop pairs COUNT SIZE DEPTH     malloc and free at once         -> result PAIR_CPU_NS PAIR_WALL_NS
//   loop beside COUNT SIZE DEPTH    the same pairs, on a page that also holds a block of 30 MiB: surely a live sample
//   loop batch COUNT SIZE DEPTH     BATCH mallocs, then BATCH frees -> result MALLOC_CPU_NS FREE_CPU_NS
//   loop pairs|beside … cold        before each malloc and each free, as much memory is read as a level-1 data cache holds twice
//
// DEPTH is 0 (from main) or 30: thirty nested calls of different functions, none a tail call, compiled without frame
// pointers. CPU time is that of the process, so that what else runs on the machine counts less.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 1000
// tcmalloc's sampler wakes up only after some tens of megabytes.
#define WARM_UP_BYTES (64l << 20)
// The most that mallopt lets glibc keep off mmap is 32 MiB.
#define LARGE_BYTES (30l << 20)
#define COLD_BYTES (64 << 10)
#define LINE_BYTES 64
// Small blocks come first from the rest of a heap that cannot grow in place (valgrind).
#define MAX_ATTEMPTS 5000

struct job {
    long is_batch, is_cold, count;
    size_t size;
    double first_ns, second_ns;
};

static double now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

// The compiler must neither remove a pair nor know that it is one.
#define ESCAPE(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")

// Empties the data cache, and takes so long that a slow path checks its file.
static void cool(void) {
    static volatile char memory[COLD_BYTES];
    for (int i = 0; i < COLD_BYTES; i += LINE_BYTES)
        (void)memory[i];
}

static void pairs(struct job *job, long count) {
    double start_wall = now_ns(CLOCK_MONOTONIC), start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < count; i++) {
        if (job->is_cold)
            cool();
        void *block = malloc(job->size);
        ESCAPE(block);
        if (job->is_cold)
            cool();
        free(block);
    }
    job->first_ns = (now_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / count;
    job->second_ns = (now_ns(CLOCK_MONOTONIC) - start_wall) / count;
}

static void batches(struct job *job, long count) {
    static void *blocks[BATCH];
    double malloc_ns = 0, free_ns = 0;
    long rounds = count / BATCH + 1;
    for (long round = 0; round < rounds; round++) {
        double start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < BATCH; i++) {
            blocks[i] = malloc(job->size);
            ESCAPE(blocks[i]);
        }
        double middle = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < BATCH; i++)
            free(blocks[i]);
        free_ns += now_ns(CLOCK_PROCESS_CPUTIME_ID) - middle;
        malloc_ns += middle - start;
    }
    job->first_ns = malloc_ns / rounds / BATCH;
    job->second_ns = free_ns / rounds / BATCH;
}

__attribute__((noipa)) static long work(struct job *job, long seed) {
    long warm_up = job->is_cold ? 1000 : WARM_UP_BYTES / job->size + 1000;
    for (int round = 0; round < 2; round++) {
        long count = round == 0 ? warm_up : job->count;
        if (job->is_batch)
            batches(job, count);
        else
            pairs(job, count);
    }
    return seed;
}

// Each level keeps two values over the call, so that it saves registers as ordinary code does.
#define LEVEL(name, next) \
    __attribute__((noipa)) static long name(struct job *job, long seed) { \
        long size = job->size + seed; \
        long result = next(job, seed + 1); \
        return result * 3 + size + job->count; \
    }
#define FIVE_LEVELS(name, next) \
    LEVEL(name##_5, next) LEVEL(name##_4, name##_5) LEVEL(name##_3, name##_4) LEVEL(name##_2, name##_3) LEVEL(name, name##_2)

FIVE_LEVELS(sixth, work)
FIVE_LEVELS(fifth, sixth)
FIVE_LEVELS(fourth, fifth)
FIVE_LEVELS(third, fourth)
FIVE_LEVELS(second, third)
FIVE_LEVELS(first, second)

// Leaves a free block of `size` on the page where a large block begins, for the next malloc of that size to take.
static int settle_beside_large_block(size_t size) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        void *small = malloc(size), *large = malloc(LARGE_BYTES);
        int is_same_page = (uintptr_t)small >> 12 == (uintptr_t)large >> 12;
        if (is_same_page) {
            free(small);
            return 1;
        }
        free(large);
    }
    return 0;
}

int main(int argc, char **argv) {
    int is_cold = argc == 6 && strcmp(argv[5], "cold") == 0;
    if (argc != 5 + is_cold)
        return fprintf(stderr, "usage: loop pairs|beside|batch COUNT SIZE 0|30 [cold]\n"), 2;
    struct job job = {strcmp(argv[1], "batch") == 0, is_cold, atol(argv[2]), strtoul(argv[3], 0, 10), 0, 0};
    if (strcmp(argv[1], "beside") == 0 && !settle_beside_large_block(job.size))
        return fprintf(stderr, "loop: no small block on the page of a large one\n"), 1;
    volatile long sink = atol(argv[4]) == 30 ? first(&job, 1) : work(&job, 1);
    (void)sink;
    printf("result %.3f %.3f\n", job.first_ns, job.second_ns);
    return 0;
}
