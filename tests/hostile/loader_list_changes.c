/* The loader's list of objects changes while a process takes its first sample, as by dlclose in another thread: the entry of what came
   after the start leads nowhere at that moment. Whoever follows the list then, without the loader's lock, follows it into freed memory.
   not-attached: it changes the list without the loader's lock, without which attach has nobody follow the list
   lib: namespaced.c
   args: {built}/namespaced.so
   representative */
#include "hostile.h"
#include <dlfcn.h>

int main(int count, char **arguments) {
    (void)count;
    for (int round = 0; round < 4; round++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            if (round % 2) take_a_certain_sample();
            struct link_map *late = dlopen(arguments[1], RTLD_NOW);
            CHECK(late != NULL);
            /* As freed memory may look. */
            struct link_map before = *late;
            late->l_next = (void *)0xa5a5a5a5a5a5a5a5;
            late->l_ld = (void *)0xa5a5a5a5a5a5a5a5;
            late->l_name = (void *)0xa5a5a5a5a5a5a5a5;
            pid_t grandchild = -1;
            if (round < 2) {
                take_a_certain_sample();
            } else if ((grandchild = fork()) == 0) {
                /* Its own first sample. */
                take_a_certain_sample();
                churn(1000);
                _exit(5);
            }
            *late = before;
            if (round >= 2) CHECK(status_of(grandchild) == 5);
            CHECK(dlclose(late) == 0);
            exit(3);
        }
        printf("%d: %d\n", round, status_of(child));
    }
    return 0;
}
