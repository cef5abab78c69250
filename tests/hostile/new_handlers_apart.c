/* Two libraries, each with a C++ library of its own inside, in a program without one: each has its own new handler.
   lib: handler_left.cc -static-libstdc++ -static-libgcc
   lib: handler_right.cc -static-libstdc++ -static-libgcc
   args: {built}/handler_left.so {built}/handler_right.so
   representative */
#include "hostile.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
    int (*knows[2])(int);
    CHECK(argc == 3);
    free(used(1000));
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return puts(dlerror()), 1;
        knows[i] = (int (*)(int))dlsym(library, "knows_its_handler");
        CHECK(knows[i] != NULL);
    }
    int results[] = {knows[1](1), knows[0](0), knows[0](1), knows[1](0)};
    for (int i = 0; i < 4; i++) printf("%d\n", results[i]);
    return 0;
}
