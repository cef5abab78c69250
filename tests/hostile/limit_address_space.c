/* RLIMIT_AS: malloc returns NULL in the middle of samples, again and again, large and small; then goes on where it was. Once with
   the limit set while it runs, once from the start of the process.
   allocators: glibc, tcmalloc, mimalloc (jemalloc keeps address space: whether its malloc goes on is by chance) */
#include "hostile.h"
#include <sys/resource.h>

static void exhaust(size_t bytes) {
    static void *blocks[200000];
    int count = 0;
    errno = 0;
    while (count < 200000 && (blocks[count] = malloc(bytes)) != NULL) count++;
    CHECK(count < 200000 && errno == ENOMEM);
    CHECK(calloc(1 << 20, 1 << 20) == NULL && errno == ENOMEM);
    for (int i = 0; i < count; i++) {
        /* A failed realloc leaves the block and its record alone. */
        *(char *)blocks[i] = 77;
        CHECK(realloc(blocks[i], 1ul << 40) == NULL && *(char *)blocks[i] == 77);
        free(blocks[i]);
    }
}

static void limit(size_t bytes) {
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) == 0);
}

int main(int count, char **arguments) {
    if (count == 1) {
        churn(1000);
        pid_t child = fork();
        if (child == 0) {
            limit(512 << 20);
            execl("/proc/self/exe", arguments[0], "limited", NULL);
        }
        printf("limited from the start: %d\n", status_of(child));
        /* Above what an allocator reserves at its start. */
        limit(1200 << 20);
    }
    for (int i = 0; i < 3; i++) {
        exhaust(20 << 20);
        exhaust(100 << 10);
        exhaust(20000);
        churn(1000);
    }
    puts("NULL, then on");
    return 0;
}
