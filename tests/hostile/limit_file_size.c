/* RLIMIT_FSIZE: the signal comes for what the program writes and for nothing else: with its default action, a handler, ignored;
   limited before the first sample and after; down to nothing. */
#include "hostile.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static volatile sig_atomic_t signals;

static void count(int signal) {
    (void)signal;
    signals++;
}

static int try(const char *way, rlim_t limit, int is_sampled_before) {
    pid_t child = fork();
    if (child != 0) return status_of(child);
    if (is_sampled_before) take_a_certain_sample();
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit}) == 0);
    if (!strcmp(way, "handler")) signal(SIGXFSZ, count);
    if (!strcmp(way, "ignored")) signal(SIGXFSZ, SIG_IGN);
    /* Many stacks' worth and many live samples: what ramson keeps must grow. */
    for (int i = 0; i < 15000; i++) CHECK(malloc(100) != NULL);
    take_a_certain_sample();
    CHECK(signals == 0);
    int file = open("written", O_RDWR | O_CREAT | O_TRUNC, 0600);
    char block[4096] = {0};
    ssize_t written = pwrite(file, block, sizeof block, limit);
    CHECK(written == -1 && errno == EFBIG);
    churn(1000);
    exit(signals);
}

int main(void) {
    const char *ways[] = {"default", "handler", "ignored"};
    rlim_t limits[] = {0, 4096, 1 << 20, 10 << 20, 100 << 20};
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < 10; i++) {
            printf("%s, %lu bytes: %d\n", ways[way], limits[i / 2], try(ways[way], limits[i / 2], i % 2));
            fflush(stdout);
        }
    }
    return 0;
}
