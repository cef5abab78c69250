// hides_one ROUNDS LIBRARY: loads the library, has it work, and unloads it, so many times.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    for (int round = 0; argc == 3 && round < atoi(argv[1]); round++) {
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        int (*work)(void) = library ? (int (*)(void))dlsym(library, "site_hidden") : NULL;
        if (!work || work() != 3) {
            fprintf(stderr, "round %d: %s\n", round, work ? "another result" : dlerror());
            return 1;
        }
        dlclose(library);
    }
    return 0;
}
