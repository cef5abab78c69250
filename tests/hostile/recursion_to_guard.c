/* Recursion to the guard page, with an allocation at the last depth where it is safe: as deep as the allocator alone just bears,
   found by trying without ramson, less the 3 KiB that docs/internals/edge-cases.md grants ramson. Small and large, with the process's first
   sample there or an earlier one. */
#include "hostile.h"
#include <pthread.h>
#include <sys/mman.h>

enum { RESERVE = 3 << 10, STACK = 256 << 10 };
static const size_t sizes[] = {100, 64 << 20};
static char *stack;

struct Try {
    long room;
    size_t bytes;
};

__attribute__((noinline)) static void descend(const struct Try *try) {
    char *here = __builtin_frame_address(0);
    if (here - stack > try->room + 200) {
        descend(try);
    } else {
        free(malloc(try->bytes));
    }
}

static void *thread(void *argument) {
    descend(argument);
    return NULL;
}

/* In a child: whether an allocation with `room` bytes of stack left gets by. */
static int survives(long room, size_t bytes, int is_sampled_before) {
    pid_t child = fork();
    if (child == 0) {
        struct Try try = {room, bytes};
        if (is_sampled_before) take_a_certain_sample();
        pthread_attr_t attributes;
        pthread_t other;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stack, STACK);
        CHECK(pthread_create(&other, &attributes, thread, &try) == 0);
        CHECK(pthread_join(other, NULL) == 0);
        _exit(0);
    }
    return status_of(child) == 0;
}

static void print_least(void) {
    for (int i = 0; i < 4; i++) {
        long least = 16;
        while (!survives(least, sizes[i % 2], i / 2)) least += 16;
        printf("%ld\n", least);
    }
}

/* This program's own answer when ramson is not preloaded. */
static FILE *without_ramson(void) {
    char preload[8192] = "", *given = getenv("LD_PRELOAD"), *rest = NULL;
    char *library = given ? strtok_r(strdup(given), ":", &rest) : NULL;
    for (; library; library = strtok_r(NULL, ":", &rest)) {
        if (!strstr(library, "libramson")) strcat(strcat(preload, library), ":");
    }
    int ends[2];
    CHECK(pipe(ends) == 0);
    if (fork() == 0) {
        dup2(ends[1], 1);
        setenv("LD_PRELOAD", preload, 1);
        execl("/proc/self/exe", "recursion_to_guard", "least", NULL);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

int main(int count, char **arguments) {
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *area = mmap(NULL, STACK + 4096, protection, flags, -1, 0);
    CHECK(area != MAP_FAILED && mprotect(area, 4096, PROT_NONE) == 0);
    stack = area + 4096;
    if (count > 1) {
        (void)arguments;
        print_least();
        return 0;
    }
    FILE *answers = without_ramson();
    for (int i = 0; i < 4; i++) {
        long least;
        CHECK(fscanf(answers, "%ld\n", &least) == 1);
        CHECK(survives(least + RESERVE, sizes[i % 2], i / 2));
        printf("%zu bytes%s\n", sizes[i % 2], i / 2 ? ", sampled before" : "");
        fflush(stdout);
    }
    return 0;
}
