// A library with operators of its own, which are not libstdc++'s; how often they were called.
#include <cstddef>
#include <cstdlib>

static int calls;

void *operator new(std::size_t bytes) {
    calls++;
    return malloc(bytes);
}
void operator delete(void *block) noexcept {
    calls++;
    free(block);
}
void operator delete(void *block, std::size_t) noexcept {
    calls++;
    free(block);
}

extern "C" int calls_after_one_pair(void) {
    int *volatile block = new int(5);
    delete block;
    return calls;
}
