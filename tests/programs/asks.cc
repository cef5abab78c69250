// Asks which new handler there is, is told, and dies of something else.
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

static std::vector<char *> kept;
static void handler() { _Exit(97); }

__attribute__((noinline)) static void site_held() {
    for (int i = 0; i < 4; i++) {
        kept.push_back(new char[300000]);
        memset(kept.back(), 1, 300000);
    }
}

int main() {
    site_held();
    if (std::get_new_handler()) return 96;
    std::set_new_handler(handler);
    if (std::get_new_handler() != handler) return 95;
    abort();
}
