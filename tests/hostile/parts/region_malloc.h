/* A small malloc of a program's own: from one region, with a free list for each power of two. Aborts on a block that is not its own. */
#include <stdint.h>

static _Alignas(4096) char region[64 << 20];
static size_t region_used;
static void *free_lists[64];
static pthread_mutex_t region_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_of_region(void *address) { return (char *)address >= region && (char *)address < region + sizeof region; }

/* Blocks lie at multiples of their size class, which the word before the block tells. */
static void *take(size_t alignment, size_t size) {
    size_t class = 32;
    while (class < size + 16 || class < 2 * alignment) class *= 2;
    int index = __builtin_ctzl(class);
    pthread_mutex_lock(&region_lock);
    char *chunk = free_lists[index];
    if (chunk) {
        free_lists[index] = *(void **)chunk;
    } else if (region_used + class > sizeof region - class) {
        chunk = NULL;
    } else {
        region_used = (region_used + class - 1) & ~(class - 1);
        chunk = region + region_used;
        region_used += class;
    }
    pthread_mutex_unlock(&region_lock);
    if (!chunk) {
        errno = ENOMEM;
        return NULL;
    }
    size_t gap = alignment > 16 ? alignment : 16;
    ((size_t *)(chunk + gap))[-1] = class | gap << 32;
    return chunk + gap;
}

void *malloc(size_t size) { return take(16, size); }

void free(void *address) {
    if (!address) return;
    if (!is_of_region(address)) abort();
    size_t word = ((size_t *)address)[-1];
    char *chunk = (char *)address - (word >> 32);
    int index = __builtin_ctzl((uint32_t)word);
    pthread_mutex_lock(&region_lock);
    *(void **)chunk = free_lists[index];
    free_lists[index] = chunk;
    pthread_mutex_unlock(&region_lock);
}

void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

void *realloc(void *address, size_t size) {
    void *block = malloc(size);
    if (!block || !address) return block;
    size_t word = ((size_t *)address)[-1], old = (uint32_t)word - (word >> 32);
    memcpy(block, address, old < size ? old : size);
    free(address);
    return block;
}

int posix_memalign(void **result, size_t alignment, size_t size) { return (*result = take(alignment, size)) ? 0 : ENOMEM; }
void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }
void *memalign(size_t alignment, size_t size) { return take(alignment, size); }
