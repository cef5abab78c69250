/* An allocator that a signal handler may use, whatever the handler interrupted: slots taken and given back by one atomic
   operation each. With it below ramson, programs that allocate in handlers, or leave them by siglongjmp, are well defined. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { SLOTS = 512, SLOT_BYTES = 4096, LARGE_BYTES = 64 << 20 };
static _Alignas(4096) char slots[SLOTS][SLOT_BYTES];
static _Alignas(4096) char large[LARGE_BYTES];
static atomic_uchar is_taken[SLOTS];
static unsigned slot_bytes[SLOTS];
static atomic_size_t large_used;
static atomic_uint last;

static int slot_of(const void *block) {
    size_t offset = (const char *)block - slots[0];
    return offset < sizeof slots ? (int)(offset / SLOT_BYTES) : -1;
}

static void *take(size_t alignment, size_t bytes) {
    for (unsigned step = 0; bytes <= SLOT_BYTES && step < SLOTS; step++) {
        unsigned slot = (last + step) % SLOTS;
        if (is_taken[slot] || atomic_exchange(&is_taken[slot], 1)) continue;
        last = slot + 1;
        slot_bytes[slot] = bytes;
        return slots[slot];
    }
    if (alignment < 16) alignment = 16;
    size_t room = (bytes + 15 + 16 + alignment) & ~(size_t)15;
    size_t from = room < bytes ? LARGE_BYTES : atomic_fetch_add(&large_used, room);
    if (from > LARGE_BYTES - 16 || room > LARGE_BYTES - from) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((size_t)large + from + 16 + alignment - 1) & ~(alignment - 1));
    ((size_t *)block)[-1] = bytes;
    return block;
}

void *malloc(size_t bytes) { return take(16, bytes); }
void *memalign(size_t alignment, size_t bytes) { return take(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return take(alignment, bytes); }

int posix_memalign(void **result, size_t alignment, size_t bytes) {
    void *block = take(alignment, bytes);
    if (block) *result = block;
    return block ? 0 : ENOMEM;
}

void free(void *block) {
    int slot = slot_of(block);
    if (slot >= 0) is_taken[slot] = 0;
}

void *calloc(size_t count, size_t bytes) {
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product)) return NULL;
    void *block = take(16, product);
    return block ? memset(block, 0, product) : NULL;
}

void *realloc(void *block, size_t bytes) {
    void *moved = take(16, bytes);
    if (!moved || !block) return moved;
    int slot = slot_of(block);
    size_t old = slot >= 0 ? slot_bytes[slot] : ((size_t *)block)[-1];
    memcpy(moved, block, old < bytes ? old : bytes);
    free(block);
    return moved;
}
