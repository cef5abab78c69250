/* Functions of many frame shapes that call each other as a seed says. Compiled several times, with other options and another
   table of functions each, by tests/mod: a stack then mixes compilers' options as programs mix libraries. */
#include <alloca.h>
#include <stdlib.h>

typedef void visitor(void *);
struct tour {
    visitor *visit;
    void *argument;
    /* Entry points of all builds. */
    void (*const *ways)(struct tour *, unsigned long seed, int depth);
    unsigned long way_count;
};

static void on(struct tour *tour, unsigned long seed, int depth);

__attribute__((noinline)) static void plain(struct tour *tour, unsigned long seed, int depth) {
    volatile char pad[24];
    pad[0] = 1;
    on(tour, seed, depth);
    pad[1] = 2;
}

__attribute__((noinline)) static void variable(struct tour *tour, unsigned long seed, int depth) {
    volatile char array[(seed & 255) + 1];
    volatile char *more = alloca((seed >> 8 & 63) + 1);
    array[0] = 1;
    more[0] = 1;
    on(tour, seed, depth);
    array[seed & 255] = 2;
}

#ifdef REALIGNED
__attribute__((noinline)) static void aligned(struct tour *tour, unsigned long seed, int depth) {
    __attribute__((aligned(64))) volatile double locals[8];
    for (int index = 0; index < 8; index++)
        locals[index] = index;
    on(tour, seed, depth);
    for (int index = 0; index < 8; index++)
        locals[index] *= 3;
}

__attribute__((noinline)) static void aligned_variable(struct tour *tour, unsigned long seed, int depth) {
    __attribute__((aligned(32))) volatile double locals[4];
    volatile char *more = alloca((seed & 127) + 1);
    locals[seed & 3] = 1;
    more[0] = 1;
    on(tour, seed, depth);
    locals[seed & 3] *= 3;
}
#endif

__attribute__((noinline)) static void many(struct tour *tour, unsigned long seed, int depth, long a, long b,
                                           long c, long d, long e, long f) {
    volatile long sum = a + b + c;
    on(tour, seed, depth);
    sum += d + e + f;
}

struct item {
    struct tour *tour;
    unsigned long seed;
    int depth;
};

static int compare(const void *left, const void *right) {
    const struct item *item = left;
    struct item *only = (struct item *)item;
    (void)right;
    if (only->tour) {
        struct tour *tour = only->tour;
        only->tour = 0;
        on(tour, only->seed, only->depth);
    }
    return 0;
}

__attribute__((noinline)) static void sorted(struct tour *tour, unsigned long seed, int depth) {
    struct item items[2] = {{tour, seed, depth}, {0, 0, 0}};
    qsort(items, 2, sizeof *items, compare);
}

__attribute__((noinline)) static void on(struct tour *tour, unsigned long seed, int depth) {
    volatile char pad[8];
    pad[0] = 1;
    if (depth == 0)
        tour->visit(tour->argument);
    else
        tour->ways[seed % tour->way_count](tour, seed / tour->way_count, depth - 1);
    pad[1] = 2;
}

__attribute__((visibility("default"))) void way(struct tour *tour, unsigned long seed, int depth) {
    unsigned long next = seed * 6364136223846793005ul + 1442695040888963407ul;
    switch (seed >> 33 & 7) {
    case 0: variable(tour, next, depth); break;
#ifdef REALIGNED
    case 1: aligned(tour, next, depth); break;
    case 2: aligned_variable(tour, next, depth); break;
#endif
    case 3: many(tour, next, depth, 1, 2, 3, 4, 5, 6); break;
    case 4: sorted(tour, next, depth); break;
    default: plain(tour, next, depth);
    }
    __asm__ volatile("" ::: "memory");
}

/* One function calling itself. */
__attribute__((visibility("default"))) int recurse(struct tour *tour, int depth) {
    volatile char pad[40];
    pad[0] = 1;
    if (depth == 0)
        tour->visit(tour->argument);
    else
        recurse(tour, depth - 1);
    return pad[0] + depth;
}
