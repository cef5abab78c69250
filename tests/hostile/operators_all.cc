/* Every operator new with every operator delete that may follow: sized, aligned, nothrow, arrays; errno untouched;
   memory resources on top of them, and a thread object in a buffer.
   build: -std=c++20 -faligned-new
   representative */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>

static void sizes() {
    for (std::size_t size = 0; size < 70000; size = size * 2 + 1) {
        errno = 99;
        operator delete(operator new(size));
        operator delete(operator new(size), size);
        operator delete[](operator new[](size));
        operator delete[](operator new[](size), size);
        operator delete(operator new(size, std::nothrow), std::nothrow);
        operator delete[](operator new[](size, std::nothrow), std::nothrow);
        for (std::size_t shift = 4; shift < 16; shift++) {
            std::align_val_t alignment{std::size_t(1) << shift};
            void *blocks[] = {operator new(size, alignment), operator new[](size, alignment),
                              operator new(size, alignment, std::nothrow), operator new[](size, alignment, std::nothrow)};
            for (void *block : blocks)
                if ((uintptr_t)block >> shift << shift != (uintptr_t)block) puts("not aligned");
            operator delete(blocks[0], size, alignment);
            operator delete[](blocks[1], size, alignment);
            operator delete(blocks[2], alignment, std::nothrow);
            operator delete[](blocks[3], alignment, std::nothrow);
            operator delete(operator new(size, alignment), alignment);
            operator delete[](operator new[](size, alignment), alignment);
        }
        if (errno != 99) printf("errno %d at %zu\n", errno, size);
    }
    operator delete(nullptr);
    operator delete[](nullptr, std::nothrow);
    operator delete(nullptr, std::align_val_t(64));
    operator delete(nullptr, 10);
}

static void resources() {
    char buffer[4096];
    std::pmr::monotonic_buffer_resource monotonic(buffer, sizeof buffer);
    std::pmr::unsynchronized_pool_resource pool(&monotonic);
    std::pmr::synchronized_pool_resource shared(std::pmr::new_delete_resource());
    std::pmr::unordered_map<int, std::pmr::string> map(&pool), other(&shared);
    for (int i = 0; i < 3000; i++) {
        map.emplace(i, std::pmr::string(i % 300, 'a'));
        other.emplace(i, std::pmr::string(i % 300, 'b'));
        if (i % 3 == 0) other.erase(i / 2);
    }
    std::size_t sum = 0;
    for (auto &entry : map) sum += entry.second.size();
    for (auto &entry : other) sum += entry.second.size();
    alignas(std::thread) char place[sizeof(std::thread)];
    auto *thread = new (place) std::thread([&] { sum += std::string(100000, 'x').size(); });
    thread->join();
    thread->~thread();
    printf("%zu\n", sum);
}

int main() {
    sizes();
    resources();
    return 0;
}
