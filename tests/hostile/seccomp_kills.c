/* A filter that kills on every system call that the program and its C library do not need: installed in main before the first
   sample, after it, and before exec, so that the whole process lives inside.
   allocators: glibc (the others make further calls, and are killed for them) */
#include "seccomp.h"

static const int inside[] = {CALLS_TO_ALLOCATE, -1}, from_the_start[] = {CALLS_TO_START, CALLS_TO_ALLOCATE, -1};

int main(int count, char **arguments) {
    if (count > 1) {
        allocate_a_lot(30);
        return 5;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        if (child == 0) {
            if (way == 1) take_a_certain_sample();
            allow_only(way < 2 ? inside : from_the_start, SECCOMP_RET_KILL_PROCESS);
            if (way == 2) execl("/proc/self/exe", arguments[0], "inside", NULL);
            allocate_a_lot(30);
            exit(5);
        }
        printf("%s: %d\n", ((const char *[]){"before a sample", "after one", "before exec"})[way], status_of_filtered(child));
    }
    return 0;
}
