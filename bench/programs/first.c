// Times single allocations that are surely samples: `first SIZE [LIBRARY FUNCTION]`.
//
// Prints `result FIRST_NS SECOND_NS`: the process's first such malloc and the next one, or, with a library, the first and
// second call of its FUNCTION(SIZE, "", 0), which allocates, right after dlopen (the process has had a sample before that).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void *allocate(size_t size, const char *file, int line);

__attribute__((noipa)) static void *from_here(size_t size, const char *file, int line) {
    (void)file, (void)line;
    return malloc(size);
}

__attribute__((noipa)) static double time_ns(allocate *function, size_t size) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    void *block = function(size, "", 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!block)
        abort();
    return (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4)
        return fprintf(stderr, "usage: first SIZE [LIBRARY FUNCTION]\n"), 2;
    size_t size = strtoul(argv[1], 0, 10);
    allocate *function = from_here;
    struct timespec warm_clock;
    clock_gettime(CLOCK_MONOTONIC, &warm_clock);
    if (argc == 4) {
        if (!from_here(size, "", 0))
            abort();
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        function = library ? (allocate *)dlsym(library, argv[3]) : 0;
        if (!function)
            return fprintf(stderr, "first: %s\n", dlerror()), 1;
    }
    double first_ns = time_ns(function, size);
    double second_ns = time_ns(function, size);
    printf("result %.0f %.0f\n", first_ns, second_ns);
    return 0;
}
