/* A program that ships operator new alone: what it returns comes back to the delete of libstdc++, or of the allocator. */
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

static std::size_t news;

void *operator new(std::size_t size) {
    __atomic_add_fetch(&news, 1, __ATOMIC_RELAXED);
    void *block = malloc(size ? size : 1);
    if (!block) throw std::bad_alloc();
    return block;
}

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
    printf("%zu\n", news);
    return 0;
}
