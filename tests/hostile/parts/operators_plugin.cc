// A library with operators of its own, which are not libstdc++'s: blocks of a pool, which nobody else can free.
#include <cstddef>
#include <cstdlib>

static char pool[4096];
static int news, deletes;

void *operator new(std::size_t bytes) {
    if (bytes > 64) abort();
    return pool + news++ * 64 % sizeof pool;
}
void operator delete(void *block) noexcept {
    if (block < pool || block >= pool + sizeof pool) abort();
    deletes++;
}
void operator delete(void *block, std::size_t) noexcept { operator delete(block); }

extern "C" int *make(void) { return new int(news); }
// A jump: the return address is the caller's.
extern "C" void destroy(int *block) { delete block; }
extern "C" int count(void) { return 100 * news + deletes; }
