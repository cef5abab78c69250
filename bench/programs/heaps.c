// A heap of its own for each seed: heaps SEED MIB, allocates and touches blocks of one of several ranges of sizes, frees a share of them in no
// order, and waits for the end of its standard input.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return fprintf(stderr, "usage: heaps SEED MIB\n"), 2;
    state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
    long left = atol(argv[2]) << 20;
    size_t largest = (size_t[]){200, 2000, 20000, 200000}[draw(4)];
    unsigned freed_percent = 20 + draw(80), count = 0;
    // Room for half as many again as there are on average.
    char **blocks = malloc((left * 3 / (largest + 31) + 1000) * sizeof *blocks);
    while (left > 0) {
        size_t bytes = 16 + draw(largest);
        memset(blocks[count++] = malloc(bytes), 1, bytes);
        left -= bytes;
    }
    for (unsigned i = 0; i < count; i++)
        if (draw(100) < freed_percent)
            free(blocks[i]);
    puts("result 0");
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
