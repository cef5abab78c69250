/* RTLD_DEEPBIND: a library that binds to the C library's own malloc and free, past ramson's, and gives blocks to the program, which
   frees them through ramson; and the other way round.
   lib: namespaced.c
   args: {built}/namespaced.so
   allocators: glibc (with the others, two allocators would free each other's blocks)
   representative */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    long sum = 0;
    for (int round = 0; round < 10; round++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
        char *(*allocate)(int) = (char *(*)(int))dlsym(library, "allocate_text");
        char *(*duplicate)(const char *) = (char *(*)(const char *))dlsym(library, "duplicate_text");
        void (*release)(void *) = (void (*)(void *))dlsym(library, "release");
        if (!allocate || !duplicate || !release) return puts(dlerror()), 1;
        for (int i = 0; i < 2000; i++) {
            char *theirs = allocate(i), *ours = strdup(theirs), *both = realloc(duplicate(ours), 5000);
            sum += strlen(both);
            free(theirs);  /* Allocated past ramson, freed through it. */
            release(ours); /* The other way round: the record stays until the address is seen again. */
            release(both);
            free(duplicate("again"));
        }
        dlclose(library);
    }
    printf("%ld\n", sum);
    return 0;
}
