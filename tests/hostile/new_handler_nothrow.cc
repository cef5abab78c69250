/* A new handler that throws below a nothrow operator new, which must swallow it. */
#include <stdio.h>
#include <stdlib.h>

#include <limits>
#include <new>
#include <stdexcept>

static long handled;
static void throws() {
    handled++;
    throw std::bad_alloc();
}

int main() {
    volatile std::size_t huge = std::numeric_limits<std::ptrdiff_t>::max() - 100;
    std::set_new_handler(throws);
    for (int i = 0; i < 50; i++) {
        if (operator new(huge, std::nothrow) || operator new[](huge, std::nothrow)) abort();
        if (operator new(huge, std::align_val_t(64), std::nothrow)) abort();
        delete[] new char[i];
    }
    printf("%ld\n", handled);
    return 0;
}
