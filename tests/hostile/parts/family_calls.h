/* Calls the whole family, from C, from C++ and through the C library, and prints what came back of it. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

static unsigned long sum;

static void use(void *address, size_t size) {
    memset(address, 7, size);
    sum += malloc_usable_size(address) >= size;
}

static void work() {
    for (size_t size = 1; size < 100000; size = size * 3 / 2 + 1) {
        void *blocks[6] = {malloc(size), calloc(3, size), realloc(NULL, size), memalign(64, size), NULL, strdup("text")};
        if (posix_memalign(&blocks[4], 256, size)) abort();
        for (int i = 0; i < 5; i++) use(blocks[i], size);
        blocks[0] = realloc(blocks[0], size * 2);
        use(blocks[0], size * 2);
        for (void *block : blocks) free(block);
        std::vector<std::string> strings(20, std::string(size, 'x'));
        sum += strings.back().size();
        std::unique_ptr<char[]> array(new char[size]);
        use(array.get(), size);
    }
    dlsym(RTLD_DEFAULT, "no such function");
    sum += dlerror() != NULL;
}

int main() {
    work();
    std::thread(work).join();
    printf("%lu\n", sum);
    return 0;
}
