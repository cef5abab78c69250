// Children: what a process costs that is forked from one with a profile.
//
//   children COUNT BYTES     holds 8 MiB, then forks so many children, one after the other, of which each allocates and touches BYTES, in blocks
//                            of 1,000, and ends by _exit                       -> result MINOR_FAULTS CPU_US, of all children together
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 1000

static void allocate(long bytes) {
    for (; bytes > 0; bytes -= BLOCK) {
        char *block = malloc(BLOCK);
        memset(block, 1, BLOCK);
        // Not to be left out by the compiler.
        __asm__ volatile("" : : "r"(block) : "memory");
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return fprintf(stderr, "usage: children COUNT BYTES\n"), 2;
    allocate(8l << 20);
    for (long left = atol(argv[1]); left > 0; left--) {
        pid_t child = fork();
        if (child < 0)
            return perror("fork"), 1;
        if (child == 0) {
            allocate(atol(argv[2]));
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0)
            return fprintf(stderr, "child: status %d\n", status), 1;
    }
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    long cpu_us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000l + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    printf("result %ld %ld\n", usage.ru_minflt, cpu_us);
}
