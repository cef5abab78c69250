/* operator new that cannot have the memory: bad_alloc, new handlers that give up, throw, or free what was held back.
   build: -faligned-new
   representative */
#include <stdio.h>
#include <stdlib.h>

#include <limits>
#include <new>
#include <stdexcept>
#include <string>

static long handled, caught;

static void gives_up() {
    if (++handled % 3 == 0) std::set_new_handler(nullptr);
}
static void throws() {
    handled++;
    throw std::runtime_error(std::string(500, 'm'));
}

template <typename Work>
static void expect(std::new_handler handler, Work work) {
    std::set_new_handler(handler);
    try {
        work();
        puts("nothing thrown");
    } catch (const std::bad_alloc &) {
        caught++;
    } catch (const std::runtime_error &error) {
        caught += std::string(error.what()).size();
    }
}

int main() {
    volatile std::size_t huge = std::numeric_limits<std::ptrdiff_t>::max() - 100;
    const std::align_val_t wide{64};
    for (int i = 0; i < 50; i++) {
        for (std::new_handler handler : {std::new_handler(nullptr), gives_up, throws}) {
            expect(handler, [&] { operator delete(operator new(huge)); });
            expect(handler, [&] { operator delete[](operator new[](huge)); });
            expect(handler, [&] { delete[] new int[huge / 4]; });
        }
        for (std::new_handler handler : {std::new_handler(nullptr), gives_up}) {
            std::set_new_handler(handler);
            void *blocks[] = {operator new(huge, std::nothrow), operator new[](huge, std::nothrow),
                              operator new(huge, wide, std::nothrow), operator new[](huge, wide, std::nothrow)};
            for (void *block : blocks) caught += block == nullptr;
        }
        expect(nullptr, [&] { operator delete(operator new(huge, wide), wide); });
        free(malloc(i));
    }
    printf("%ld handled, %ld caught\n", handled, caught);
    return 0;
}
