/* Holds a pool of 64 MiB, 40 of them touched, 8 MiB of shared memory, all touched, and a reservation; and 3 MiB of heap. Says so
   and sleeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MiB (1ul << 20)

static void pool(void) {
    memset(mmap(NULL, 64 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 40 * MiB);
}

static void shared(void) {
    memset(mmap(NULL, 8 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 8 * MiB);
}

static void *volatile kept;

int main(void) {
    mmap(NULL, 1ul << 34, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pool();
    shared();
    for (int i = 0; i < 30; i++) memset(kept = malloc(100 * 1024), 1, 100 * 1024);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
