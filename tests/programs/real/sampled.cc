// Holds 64 MiB in blocks of 16 KiB, and writes what tcmalloc has sampled of them, as a server's /pprof/heap does.
#include <cstdio>
#include <cstdlib>
#include <string>

// The functions that are called of gperftools' class of that name. Its functions are virtual; called by their names they need no table.
struct MallocExtension {
    static MallocExtension *instance();
    void GetHeapSample(std::string *text);
};

void *volatile held[4096];

__attribute__((noinline)) void hold(int index) {
    held[index] = malloc(16384);
}

int main() {
    for (int index = 0; index < 4096; index++) hold(index);
    std::string text;
    MallocExtension::instance()->GetHeapSample(&text);
    fwrite(text.data(), 1, text.size(), stdout);
}
