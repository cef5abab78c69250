// Allocates COUNT blocks of 100 bytes, frees PERCENT of them at random or, with RUNS, in runs of 2,000, prints `free BYTES of BYTES` as mallinfo2
// counts them, and waits: `blocks COUNT PERCENT RUNS`.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4)
        return fprintf(stderr, "usage: blocks COUNT PERCENT RUNS\n"), 2;
    long count = atol(argv[1]), percent = atol(argv[2]);
    int is_in_runs = atoi(argv[3]);
    unsigned seed = 1;
    char **blocks = calloc(count + 1, sizeof *blocks);
    for (long i = 0; i < count; i++)
        blocks[i] = memset(malloc(100), 1, 100);
    int is_freed = 0;
    for (long i = 0; i < count; i++) {
        if (!is_in_runs || i % 2000 == 0)
            is_freed = rand_r(&seed) % 100 < percent;
        if (is_freed)
            free(blocks[i]);
    }
    // Empties the fastbins, and the freed list goes back to the kernel.
    free(malloc(4096));
    free(blocks);
    struct mallinfo2 info = mallinfo2();
    printf("free %zu of %zu\n", info.fordblks, info.arena);
    fflush(stdout);
    pause();
}
