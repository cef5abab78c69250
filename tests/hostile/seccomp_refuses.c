/* The same with a filter that answers EPERM, as containers do, or ENOSYS.
   allocators: glibc, jemalloc, tcmalloc (mimalloc alone hangs now and then when its calls are refused) */
#include "seccomp.h"

static const int inside[] = {CALLS_TO_ALLOCATE, -1}, from_the_start[] = {CALLS_TO_START, CALLS_TO_ALLOCATE, -1};

int main(int count, char **arguments) {
    if (count > 1) {
        allocate_a_lot(30);
        return 5;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int way = 0; way < 6; way++) {
        pid_t child = fork();
        if (child == 0) {
            if (way / 2 == 1) take_a_certain_sample();
            int errors[] = {EPERM, ENOSYS};
            allow_only(way / 2 < 2 ? inside : from_the_start, SECCOMP_RET_ERRNO | errors[way % 2]);
            if (way / 2 == 2) execl("/proc/self/exe", arguments[0], "inside", NULL);
            allocate_a_lot(30);
            exit(5);
        }
        printf("%s: %d\n", ((const char *[]){"before a sample", "after one", "before exec"})[way / 2], status_of_filtered(child));
    }
    return 0;
}
