/* A C program that loads libraries, each with operators of its own: each calls its own, also when another was there before, when that is
   unloaded, when something else is mapped where it was, and when libstdc++ is there.
   lib: operators_plugin.cc -O2 -Wl,--as-needed
   args: {built}/operators_plugin.so {tmp}
   representative */
#include "hostile.h"
#include <dlfcn.h>
#include <sys/mman.h>

enum { LIBRARIES = 4, ROUNDS = 20 };

static void *find(void *library, const char *name) {
    void *address = dlsym(library, name);
    CHECK(address != NULL);
    return address;
}

static int count_after_a_pair(void *library) {
    int *block = ((int *(*)(void))find(library, "make"))();
    ((void (*)(int *))find(library, "destroy"))(block);
    return ((int (*)(void))find(library, "count"))();
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    char name[LIBRARIES][4096], command[9000];
    for (int i = 0; i < LIBRARIES; i++) {
        snprintf(name[i], sizeof name[i], "%s/plugin%d.so", argv[2], i);
        snprintf(command, sizeof command, "cp '%s' '%s'", argv[1], name[i]);
        CHECK(system(command) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        /* From the middle on there is libstdc++, too. */
        if (round == ROUNDS / 2) CHECK(dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) != NULL);
        void *library[LIBRARIES];
        for (int i = 0; i < LIBRARIES; i++) {
            library[i] = dlopen(name[i], RTLD_NOW | RTLD_LOCAL);
            CHECK(library[i] != NULL);
            printf("%d ", count_after_a_pair(library[i]));
        }
        /* The first goes first, and what comes next lies where it was. */
        struct link_map *map = library[0];
        char *place = (char *)map->l_addr;
        CHECK(dlclose(library[0]) == 0);
        char *taken = mmap(place, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        for (int i = 1; i < LIBRARIES; i++) {
            printf("%d ", count_after_a_pair(library[i]));
            CHECK(dlclose(library[i]) == 0);
        }
        if (taken != MAP_FAILED) munmap(taken, 65536);
    }
    printf("\n");
    return 0;
}
