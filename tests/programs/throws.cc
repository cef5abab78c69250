// Holds memory, then asks for more than there is, and nobody catches the exception.
#include <cstring>
#include <vector>

static std::vector<char *> kept;

__attribute__((noinline)) static void site_held() {
    for (int i = 0; i < 4; i++) {
        kept.push_back(new char[300000]);
        memset(kept.back(), 1, 300000);
    }
}

__attribute__((noinline)) static char *site_huge() { return new char[size_t(1) << 50]; }

int main() {
    site_held();
    kept.push_back(site_huge());
    return 0;
}
