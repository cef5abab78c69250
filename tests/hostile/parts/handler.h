/* A library with a C++ library of its own: whether the new handler that it sets is the one that it is told of. */
#include <cstddef>
#include <new>

static int calls;

static void handler() {
    calls++;
    std::set_new_handler(nullptr);
}

extern "C" __attribute__((visibility("default"))) int knows_its_handler(int is_set_first) {
    if (std::get_new_handler()) return 1;
    if (!is_set_first) return 0;
    std::set_new_handler(handler);
    if (std::get_new_handler() != handler) return 2;
    std::get_new_handler()();
    return std::get_new_handler() || calls != 1 ? 3 : 0;
}
