// Holds memory, then asks for more than there is, and nobody catches the exception: at once, or in small blocks under a limit.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "limited.h"

static std::vector<char *> kept;
static char *volatile last;

__attribute__((noinline)) static void site_held() {
    for (int i = 0; i < 4; i++) {
        kept.push_back(new char[300000]);
        memset(kept.back(), 1, 300000);
    }
}

__attribute__((noinline)) static char *site_huge() { return new char[size_t(1) << 50]; }

__attribute__((noinline)) static char *site_small() { return new char[24]; }

int main(int argc, char **) {
    site_held();
    if (argc > 1) {
        limit(8 << 20);
        for (;;) last = site_small();
    }
    kept.push_back(site_huge());
    return 0;
}
