/* A service with 2,048 call paths that, once each of them has allocated, allocates 1 MiB/s: nine of ten blocks are freed within half a second, the tenth after two minutes. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEVELS = 11, SOON = 64, LATE = 2400 };

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *left(unsigned path, int level, size_t size);

__attribute__((noipa)) static void *right(unsigned path, int level, size_t size) {
    void *block = level == LEVELS ? malloc(size) : path & 1 ? right(path >> 1, level + 1, size) : left(path >> 1, level + 1, size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

__attribute__((noipa)) static void *left(unsigned path, int level, size_t size) {
    void *block = level == LEVELS ? malloc(size) : path & 1 ? right(path >> 1, level + 1, size) : left(path >> 1, level + 1, size);
    __asm__ volatile("" : "+r"(block));
    return block;
}

int main(int argc, char **argv) {
    static void *soon[SOON], *late[LATE];
    state += argc > 1 ? strtoull(argv[1], 0, 10) : 0;
    /* Nearly each path is sampled once: what comes later is no new stack. */
    for (unsigned path = 0; path < 2048; path++)
        free(left(path, 0, 2 << 20));
    for (unsigned count = 0;; count++) {
        /* 5,460 bytes on average. */
        void *block = left(next() % 2048, 0, 16u << next() % 12);
        void **place = count % 10 ? &soon[count % SOON] : &late[count / 10 % LATE];
        free(*place);
        *place = block;
        usleep(5200);
    }
}
