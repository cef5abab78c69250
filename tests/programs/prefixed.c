// Keeps memory in the C library's malloc and in a jemalloc whose names begin with je_. It says at each line on standard input what
// jemalloc says of itself. Then it waits in read(2) again. Ends at the end of the input.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 60000
#define LARGE_BLOCKS 200
// A size that jemalloc does not round up.
#define LARGE_BYTES 114688

void *je_malloc(size_t);
void je_free(void *);
int je_mallctl(const char *, void *, size_t *, void *, size_t);

// Free pages stay.
const char *malloc_conf = "dirty_decay_ms:-1";
static const char *const names[] = {"stats.allocated", "stats.active", "stats.arenas.4096.pdirty"};

static void say_figures(void) {
    size_t value, bytes = sizeof value;
    unsigned long epoch = 1;
    je_mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (je_mallctl(names[i], &value, &bytes, NULL, 0) == 0) printf("%s %zu\n", names[i], i < 2 ? value : value * 4096);
    printf("ready 0\n");
    fflush(stdout);
}

int main(void) {
    static void *blocks[BLOCKS], *large[LARGE_BLOCKS];
    for (int i = 0; i < BLOCKS / 3; i++) memset(malloc(1000), 1, 1000);
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = je_malloc(1000), 1, 1000);
    for (int i = 0; i < LARGE_BLOCKS; i++) memset(large[i] = je_malloc(LARGE_BYTES), 1, LARGE_BYTES);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3 != 0) je_free(blocks[i]);
    for (int i = 0; i < LARGE_BLOCKS; i++) je_free(large[i]);
    char byte = 0;
    do say_figures();
    while (read(0, &byte, 1) == 1);
    return 0;
}
