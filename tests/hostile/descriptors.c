/* Descriptors run out (RLIMIT_NOFILE of 0, or all in use), are all closed (closefrom, close_range), or all reused (dup2 over
   0 to 255), before the first sample and after; every number that the program gets is the one that it would get alone.
   allocators: glibc, jemalloc, mimalloc (tcmalloc walks the stack when its heap grows, and libunwind then opens a pipe)
   not-attached: the file in memory has the lowest free number while libramson.so is brought in, and a child that is forked then has it, too
   representative */
#include "hostile.h"
#include <fcntl.h>
#include <sys/resource.h>

/* In a child, so that its first sample comes after `prepare`; then once more when it has been sampled. */
static void try(const char *name, void (*prepare)(void)) {
    for (int is_sampled_before = 0; is_sampled_before < 2; is_sampled_before++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int result = dup(1);
            CHECK(result == 3);
            if (is_sampled_before) take_a_certain_sample();
            prepare();
            take_a_certain_sample();
            churn(1000);
            for (int i = 0; i < 20000; i++) CHECK(malloc(64) != NULL);
            int next = open("/dev/null", O_RDONLY);
            _exit(next >= 0 ? next % 80 : errno);
        }
        printf("%s: %d\n", name, status_of(child));
    }
}

static void nothing(void) {}
static void no_more(void) { CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) == 0); }
static void close_all(void) { closefrom(0); }
static void close_range_3(void) { CHECK(close_range(3, ~0u, 0) == 0); }

static void exhaust(void) {
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}) == 0);
    while (open("/dev/null", O_RDONLY) >= 0) {}
    CHECK(errno == EMFILE);
}

static void reuse_all(void) {
    int file = open("reused", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(write(file, "precious", 8) == 8);
    for (int i = 0; i < 256; i++) CHECK(dup2(file, i) == i);
}

int main(void) {
    try("as they are", nothing);
    try("none allowed", no_more);
    try("all in use", exhaust);
    try("closefrom(0)", close_all);
    try("close_range from 3", close_range_3);
    try("all the same file", reuse_all);
    char text[100];
    int file = open("reused", O_RDONLY);
    CHECK(read(file, text, sizeof text) == 8 && !memcmp(text, "precious", 8));
    return 0;
}
