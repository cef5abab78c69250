/* Allocates inside dlsym and its relatives: error messages, in several threads, freed by dlerror and by the thread's end; and asks
   dlsym for the family's own functions, which must work when called by pointer.
   build: -ldl */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *ask(void *argument) {
    char name[5000];
    long right = 0;
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "no_such_function_%d_%0*d", i, i * 20, 0);
        right += !dlsym(RTLD_DEFAULT, name) && strstr(dlerror(), "no_such_function");
        right += !dlopen(name, RTLD_NOW) && dlerror();
        dlsym(RTLD_NEXT, name); /* Its message is freed by the next one, or by the end of the thread. */
    }
    return (void *)right;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < 4; i++) {
        void *right;
        pthread_join(threads[i], &right);
        printf("%ld\n", (long)right);
    }
    for (int next = 0; next < 2; next++) {
        void *handle = next ? RTLD_NEXT : RTLD_DEFAULT;
        void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(handle, "malloc");
        void *(*change)(void *, size_t) = (void *(*)(void *, size_t))dlsym(handle, "realloc");
        void (*release)(void *) = (void (*)(void *))dlsym(handle, "free");
        for (int i = 0; i < 1000; i++) release(change(allocate(i), i * 3 + 1));
        free(allocate(10));
        release(malloc(10));
    }
    puts("called by pointer");
    return 0;
}
