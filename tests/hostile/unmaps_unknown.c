/* Takes out of its address space every mapping of a file that it does not know, as checkpoints, sandboxes and loaders of their own do: by
   munmap, by mmap over it, by mremap over it; before the first sample and after it.
   ramson: any
   representative */
#include "hostile.h"
#include <sys/mman.h>

enum { UNMAP, MAP_OVER, MOVE_OVER, WAYS };

static void take_out(char *start, size_t bytes, int way) {
    if (way == UNMAP) {
        CHECK(munmap(start, bytes) == 0);
        return;
    }
    if (way == MAP_OVER) {
        CHECK(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start);
    } else {
        char *other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(other != MAP_FAILED);
        CHECK(mremap(other, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == start);
    }
    /* It is the program's own now: what is written there stays. */
    memset(start, 0x77, bytes);
}

static void take_out_unknown(int way) {
    static char maps[1 << 17];
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    maps[fread(maps, 1, sizeof maps - 1, file)] = 0;
    fclose(file);
    char *own[64];
    size_t sizes[64], count = 0;
    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;
        char *path = strchr(line, '/');
        CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
        if (!path || strstr(path, ".so") || strstr(path, "unmaps_unknown")) continue;
        CHECK(count < 64);
        own[count] = (char *)start;
        sizes[count++] = end - start;
        take_out((char *)start, end - start, way);
    }
    churn(5000);
    take_a_certain_sample();
    for (size_t i = 0; way != UNMAP && i < count; i++) {
        for (size_t at = 0; at < sizes[i]; at += 512) CHECK(own[i][at] == 0x77);
    }
}

int main(void) {
    for (int round = 0; round < 2 * WAYS; round++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            if (round >= WAYS) take_a_certain_sample();
            take_out_unknown(round % WAYS);
            exit(3);
        }
        printf("%d: %d\n", round, status_of(child));
    }
    return 0;
}
