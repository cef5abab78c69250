/* RLIMIT_STACK: small and unlimited, from the start of the process; the recursion that fits still fits. */
#include "hostile.h"
#include <sys/resource.h>

__attribute__((noinline)) static void descend(int depth) {
    volatile char frame[1000];
    frame[0] = depth;
    free(used(5000));
    if (depth > 0) descend(depth - 1);
    frame[1] = frame[0];
}

int main(int count, char **arguments) {
    if (count > 1) {
        descend(atoi(arguments[1]));
        take_a_certain_sample();
        return 0;
    }
    struct {
        rlim_t bytes;
        const char *depth;
    } ways[] = {{128 << 10, "60"}, {256 << 10, "150"}, {64 << 20, "20000"}, {RLIM_INFINITY, "30000"}};
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(setrlimit(RLIMIT_STACK, &(struct rlimit){ways[i].bytes, ways[i].bytes}) == 0);
            execl("/proc/self/exe", arguments[0], ways[i].depth, NULL);
        }
        printf("%s deep: %d\n", ways[i].depth, status_of(child));
    }
    return 0;
}
