// A library with an allocator of its own that others cannot see.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define HIDDEN __attribute__((visibility("hidden"), noinline))
enum { CHUNK = 1 << 20 };
static char *next, *end;
static int live;

HIDDEN void *malloc(size_t size) {
    size = (size + 31) & ~(size_t)15;
    if ((size_t)(end - next) < size) {
        next = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = next + CHUNK;
    }
    char *block = next;
    next += size;
    live++;
    return block;
}

HIDDEN void free(void *block) {
    live -= block != NULL;
}

// Calls the other one, by a jump.
HIDDEN void *calloc(size_t count, size_t size) {
    return malloc(count * size);
}

// Allocates three blocks and frees one.
__attribute__((noinline)) int site_hidden(void) {
    char *block = malloc(5001);
    memset(block, 1, 5001);
    char *zeroes = calloc(3, 2001);
    memset(zeroes, 0, 6003);
    char *other = malloc(7001);
    memset(other, 2, 7001);
    free(other);
    return live + block[0] + zeroes[6002];
}
