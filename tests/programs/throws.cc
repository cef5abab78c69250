// Holds memory, then asks for more than there is, and nobody catches the exception: at once, or in small blocks under a limit.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

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

// From now on there is address space for so much more.
static void limit(size_t more) {
    size_t pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%zu", &pages) != 1) exit(98);
    fclose(statm);
    struct rlimit limit = {pages * 4096 + more, pages * 4096 + more};
    if (setrlimit(RLIMIT_AS, &limit)) exit(98);
}

int main(int argc, char **) {
    site_held();
    if (argc > 1) {
        limit(8 << 20);
        for (;;) last = site_small();
    }
    kept.push_back(site_huge());
    return 0;
}
