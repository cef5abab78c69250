/* plugins ROUNDS LIBRARY…: loads each in turn, lets it allocate twice (one is freed), unloads it; ROUNDS times. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept;

int main(int argc, char **argv) {
    for (int round = 0; round < atoi(argv[1]); round++) {
        for (int i = 2; i < argc; i++) {
            void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
            void *(*allocate)(void) = library ? (void *(*)(void))dlsym(library, "plugin_allocate") : NULL;
            if (!allocate) {
                fprintf(stderr, "%s\n", dlerror());
                return 1;
            }
            kept = allocate();
            free(allocate());
            dlclose(library);
        }
    }
    return 0;
}
