/* Waits for a byte on standard input. SIGUSR1 begins and ends a part that is to be watched: the first sample, new and known
   stacks, frees and reallocations; stacks that make their table grow; samples that make theirs grow; mappings, of which parts go. Prints every block,
   and every mapping that there was: address, size, and 1 if it stays. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct { void *address; int size, stays; } blocks[1024];
static int count;

static void keep(void *address, int size, int stays) {
    blocks[count].address = address;
    blocks[count].size = size;
    blocks[count++].stays = stays;
}

__attribute__((noinline)) static void *site_one(int size) { return malloc(size); }
__attribute__((noinline)) static void *site_two(int size) { return calloc(1, size); }

__attribute__((noinline)) static void *deep(int depth, int size) {
    void *block = depth ? deep(depth - 1, size) : malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

int main(void) {
    char byte;
    if (read(0, &byte, 1) != 1) return 1;
    raise(SIGUSR1);
    void *one = site_one(101), *two = site_two(102), *three = site_one(103);
    free(one);
    void *moved = realloc(two, 5000);
    raise(SIGUSR1);
    keep(one, 101, 0);
    keep(two, 102, 0);
    keep(three, 103, 1);
    keep(moved, 5000, 1);
    for (int depth = 0; depth < 100; depth++) keep(deep(depth, 200 + depth), 200 + depth, 1);
    for (int depth = 0; depth < 23; depth++) keep(site_one(400 + depth), 400 + depth, 1);
    /* The first 128 entries of the stack table are nearly used up: a few new stacks in a watched part make it grow. */
    for (int depth = 0; depth < 20; depth++) keep(deep(100 + depth, 300 + depth), 300 + depth, 1);
    raise(SIGUSR1);
    for (int depth = 0; depth < 4; depth++) keep(deep(120 + depth, 320 + depth), 320 + depth, 1);
    raise(SIGUSR1);
    /* The first segment of the live table has room for 512: the watched part makes it grow. */
    for (int size = 500; size < 850; size++) keep(site_one(size), size, 1);
    raise(SIGUSR1);
    for (int size = 850; size < 900; size++) keep(site_one(size), size, 1);
    raise(SIGUSR1);
    enum { MIB = 1 << 20 };
    raise(SIGUSR1);
    char *area = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *other = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(area, MIB);
    munmap(area + 3 * MIB, MIB);
    munmap(other, 2 * MIB);
    raise(SIGUSR1);
    for (int block = 0; block < count; block++)
        printf("block %p %d %d\n", blocks[block].address, blocks[block].size, blocks[block].stays);
    printf("extent %p %d 0\nextent %p %d 0\n", (void *)area, 4 * MIB, (void *)(area + MIB), 3 * MIB);
    printf("extent %p %d 1\nextent %p %d 0\n", (void *)(area + MIB), 2 * MIB, (void *)other, 2 * MIB);
    fflush(stdout);
    _exit(0);
}
