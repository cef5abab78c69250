// A heap that a seed decides: heaps SEED LEAST_MIB MOST_MIB. Its sizes, threads, fill and age differ from seed to seed. Then it says what it holds,
// and waits: a line on its input has it call malloc_trim and say by how much RSS fell; the end of its input ends it.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Not in glibc before 2.33.
extern struct mallinfo2 mallinfo2(void) __attribute__((weak));

enum { MOST_THREADS = 16, MOST_ROUNDS = 8 };

// Shape of a heap.
static struct {
    uint64_t seed;
    size_t bytes;
    int threads, rounds;
    int sizes, frees;
    double fill;
    size_t base;
    int touches;
} shape;

static uint64_t live_chunk_bytes[MOST_THREADS];
static pthread_barrier_t filled;

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state) { return (double)(next(state) >> 11) / (1ull << 53); }

// A block's size: all alike, a few classes, wide, mostly small with few large, or changing with the place.
static size_t size_of(uint64_t *state, double place) {
    switch (shape.sizes) {
    case 0: return shape.base;
    case 1: return shape.base << next(state) % 4;
    case 2: return 16 + next(state) % (8 * shape.base);
    case 3: {
        double u = uniform(state) + 1e-9;
        size_t bytes = (size_t)(shape.base / u);
        return bytes > 100000 ? 100000 : bytes;
    }
    case 4: return next(state) % 200 == 0 ? 20000 + next(state) % 80000 : shape.base + next(state) % 32;
    default: return place < 0.5 ? shape.base : 4 * shape.base + next(state) % 4096;
    }
}

static void *block(size_t bytes) {
    char *memory = malloc(bytes);
    if (memory == NULL) abort();
    // Some programs write what they allocate, others only the start of it: then what was there before stays.
    memset(memory, 0x5a, shape.touches || bytes < 64 ? bytes : 64);
    return memory;
}

static void *one_thread(void *argument) {
    int index = (int)(intptr_t)argument;
    uint64_t state = shape.seed * 1000003 + (uint64_t)index * 7919 + 17;
    size_t goal = shape.bytes / shape.threads, capacity = goal / 32 + 1024;
    if (index % 3 == 2) goal /= 4;
    // Mapped, so that it is no part of the heap.
    char **blocks = calloc(capacity < 1 << 17 ? 1 << 17 : capacity, sizeof *blocks);
    size_t count = 0, bytes = 0;
    while (bytes < goal && count < capacity) {
        size_t size = size_of(&state, (double)bytes / goal);
        blocks[count] = block(size);
        bytes += malloc_usable_size(blocks[count++]) + 8;
    }
    size_t run = 1 + next(&state) % 3000, period = 2 + next(&state) % 2000;
    for (int round = 0; round < shape.rounds; round++) {
        double fill = round + 1 < shape.rounds ? uniform(&state) : shape.fill;
        int frees = round + 1 < shape.rounds ? (int)(next(&state) % 5) : shape.frees;
        int is_freed = 0;
        for (size_t i = 0; i < count; i++) {
            double place = (double)i / count;
            switch (frees) {
            case 0: is_freed = uniform(&state) > fill; break;
            case 1: if (i % run == 0) is_freed = uniform(&state) > fill; break;
            case 2: is_freed = i % period != 0 && place > fill / 2; break;
            case 3: is_freed = uniform(&state) > (place < 0.8 ? 1.0 : fill); break;
            default: is_freed = uniform(&state) > (uniform(&state) < 0.02 ? fill : 1.0);
            }
            if (is_freed) free(blocks[i]), blocks[i] = NULL;
        }
        if (round + 1 == shape.rounds) break;
        for (size_t i = 0; i < count; i++)
            if (blocks[i] == NULL && uniform(&state) < 0.9) blocks[i] = block(size_of(&state, uniform(&state)));
    }
    // As a program that goes on: what was freed last is sorted, and small chunks are joined, or not.
    if (next(&state) % 2 == 0) free(block(70000));
    else if (next(&state) % 2 == 0) free(block(1500));
    for (size_t i = 0; i < count; i++)
        if (blocks[i] != NULL) live_chunk_bytes[index] += malloc_usable_size(blocks[i]) + 8;
    if (index == 0) return NULL;
    pthread_barrier_wait(&filled);
    for (;;) pause();
}

static long rss_bytes(void) {
    static char text[4096];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    setvbuf(file, text, _IOFBF, sizeof text);
    char line[256];
    long kib = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Rss: %ld kB", &kib) == 1) break;
    fclose(file);
    return kib * 1024;
}

int main(int count, char **arguments) {
    if (count != 4) return fprintf(stderr, "usage: heaps SEED LEAST_MIB MOST_MIB\n"), 2;
    static char output[256], input[256];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    setvbuf(stdin, input, _IOFBF, sizeof input);
    shape.seed = strtoull(arguments[1], NULL, 10);
    size_t least = strtoull(arguments[2], NULL, 10) << 20, most = strtoull(arguments[3], NULL, 10) << 20;
    uint64_t state = shape.seed;
    shape.bytes = least + (size_t)(uniform(&state) * (most - least));
    shape.threads = next(&state) % 3 == 0 ? 1 : 1 + (int)(next(&state) % MOST_THREADS);
    shape.rounds = 1 + (int)(next(&state) % MOST_ROUNDS);
    shape.sizes = (int)(next(&state) % 6);
    shape.frees = (int)(next(&state) % 5);
    shape.fill = uniform(&state);
    shape.base = (size_t)16 << next(&state) % 7;
    shape.base += next(&state) % shape.base;
    shape.touches = next(&state) % 3 != 0;
    // Something is in the way of the main arena, as V8's memory can be.
    char *end = sbrk(0);
    if (getenv("BLOCKED_BREAK") != NULL
        && mmap(end + (1 << 20), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
        abort();
    // Every thread has an arena of its own, and what is large stays in it.
    if (getenv("GLIBC_TUNABLES") == NULL) {
        mallopt(M_ARENA_MAX, MOST_THREADS + 1);
        mallopt(M_MMAP_THRESHOLD, 128 << 10);
    }
    pthread_barrier_init(&filled, NULL, shape.threads);
    for (int i = 1; i < shape.threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, one_thread, (void *)(intptr_t)i) != 0) abort();
    }
    one_thread(NULL);
    pthread_barrier_wait(&filled);
    uint64_t live = 0;
    for (int i = 0; i < shape.threads; i++) live += live_chunk_bytes[i];
    size_t arena, freed;
    if (mallinfo2 != NULL) {
        struct mallinfo2 info = mallinfo2();
        arena = info.arena, freed = info.fordblks;
    } else {
        struct mallinfo info = mallinfo();
        arena = info.arena, freed = info.fordblks;
    }
    printf("bytes %zu threads %d rounds %d sizes %d frees %d fill %.2f base %zu touches %d: live %lu arena %zu free %zu\n", shape.bytes,
           shape.threads, shape.rounds, shape.sizes, shape.frees, shape.fill, shape.base, shape.touches, live, arena, freed);
    fflush(stdout);
    while (getchar() == '\n') {
        long before = rss_bytes();
        malloc_trim(0);
        printf("returned %ld\n", before - rss_bytes());
        fflush(stdout);
    }
}
