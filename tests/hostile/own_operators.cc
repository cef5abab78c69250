/* A program that ships its own operator new and delete only, from a pool of its own and from malloc; libstdc++ uses them too.
   representative */
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

static std::size_t news, deletes;
static char pool[1 << 20];
static std::size_t pool_used;

void *operator new(std::size_t size) {
    __atomic_add_fetch(&news, 1, __ATOMIC_RELAXED);
    std::size_t step = (size + 31) & ~std::size_t(15);
    if (size < 64) {
        std::size_t at = __atomic_fetch_add(&pool_used, step, __ATOMIC_RELAXED);
        if (at + step <= sizeof pool) return pool + at;
    }
    void *block = malloc(size);
    if (!block) throw std::bad_alloc();
    return block;
}

void operator delete(void *address) noexcept {
    __atomic_add_fetch(&deletes, address != nullptr, __ATOMIC_RELAXED);
    if ((char *)address < pool || (char *)address >= pool + sizeof pool) free(address);
}

/* Or that of an allocator underneath would be taken for blocks of the pool. */
void operator delete(void *address, std::size_t) noexcept { operator delete(address); }

static void work() {
    std::map<int, std::string> map;
    for (int i = 0; i < 3000; i++) map[i] = std::string(i % 200, 'x');
    std::vector<std::string> copies;
    for (auto &entry : map) copies.push_back(entry.second);
    delete[] new int[1000];
    delete new (std::nothrow) double;
    delete[] new (std::nothrow) char[100];
    struct alignas(128) Wide {
        char bytes[256];
    };
    delete new Wide;
}

int main() {
    work();
    std::thread(work).join();
    printf("%zu %zu\n", news, deletes);
    return 0;
}
