/* Loads a library into namespaces of their own, each with its own C library and malloc: the two never mix, also in threads that
   use both.
   lib: namespaced.c
   args: {built}/namespaced.so */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *(*allocate[3])(int);
static char *(*duplicate[3])(const char *);
static void (*release[3])(void *);

static void *use(void *number) {
    long sum = 0;
    for (int i = 0; i < 3000; i++) {
        int where = (i + (int)(long)number) % 3;
        char *text = allocate[where](i), *copy = duplicate[where](text), *own = strdup(copy);
        sum += strlen(own);
        release[where](text);
        release[where](copy);
        free(own);
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    for (int round = 0; round < 3; round++) {
        void *handles[3];
        for (int i = 0; i < 3; i++) {
            handles[i] = i == 2 ? dlopen(argv[1], RTLD_NOW) : dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
            if (!handles[i]) return puts(dlerror()), 1;
            allocate[i] = (char *(*)(int))dlsym(handles[i], "allocate_text");
            duplicate[i] = (char *(*)(const char *))dlsym(handles[i], "duplicate_text");
            release[i] = (void (*)(void *))dlsym(handles[i], "release");
        }
        pthread_t threads[3];
        /* The namespaces' C libraries know nothing of our threads: they must not use theirs at the same time. */
        for (long i = 0; i < 3; i++) {
            pthread_create(&threads[i], NULL, use, (void *)i);
            void *sum;
            pthread_join(threads[i], &sum);
            printf("%ld\n", (long)sum);
        }
        for (int i = 0; i < 3; i++) dlclose(handles[i]);
    }
    return 0;
}
