/* Allocates in an IFUNC resolver of a library that is loaded while the program runs.
   lib: resolves.c -fno-plt
   args: {built}/resolves.so */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    for (int i = 0; i < 50; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        int (*indirect)(void) = library ? (int (*)(void))dlsym(library, "resolved_indirectly") : NULL;
        if (!indirect || indirect() != 1) return printf("%d: %s\n", i, dlerror()), 1;
        dlclose(library);
    }
    puts("resolver of a loaded library allocated");
    return 0;
}
