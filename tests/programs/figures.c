// Keeps memory, and says at each line on standard input what its allocator says of itself: jemalloc by mallctl, tcmalloc by MallocExtension.
// Then it waits in read(2) again. Ends at the end of the input.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 20000

static const char *const jemalloc[] = {"stats.allocated", "stats.active", "stats.metadata", "stats.resident", "stats.mapped", "stats.retained",
                                       "stats.arenas.4096.pdirty", "stats.arenas.4096.pmuzzy"};
static const char *const tcmalloc[] = {"generic.current_allocated_bytes", "generic.heap_size", "tcmalloc.pageheap_free_bytes",
                                       "tcmalloc.pageheap_unmapped_bytes", "tcmalloc.central_cache_free_bytes",
                                       "tcmalloc.transfer_cache_free_bytes", "tcmalloc.current_total_thread_cache_bytes"};

static void say_figures(void) {
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
    int (*property)(const char *, size_t *) = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    size_t value, bytes = sizeof value;
    unsigned long epoch = 1;
    if (mallctl != NULL) mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    for (size_t i = 0; mallctl != NULL && i < sizeof jemalloc / sizeof *jemalloc; i++)
        if (mallctl(jemalloc[i], &value, &bytes, NULL, 0) == 0) printf("%s %zu\n", jemalloc[i], i < 6 ? value : value * 4096);
    for (size_t i = 0; property != NULL && i < sizeof tcmalloc / sizeof *tcmalloc; i++)
        if (property(tcmalloc[i], &value)) printf("%s %zu\n", tcmalloc[i], value);
    printf("ready 0\n");
    fflush(stdout);
}

int main(void) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(1000), 1, 1000);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3 != 0) free(blocks[i]);
    char byte = 0;
    do say_figures();
    while (read(0, &byte, 1) == 1);
    return 0;
}
