/* Holds memory of two sites, then dies in the way that its first argument names. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limited.h"

enum { GROWN_BYTES = 100000, HELD_BYTES = 300000, HELD_BLOCKS = 4, SMALL_BYTES = 24 };

static void *volatile kept;

__attribute__((noinline)) static void site_held(void) {
    for (int i = 0; i < HELD_BLOCKS; i++) {
        kept = malloc(HELD_BYTES);
        memset(kept, 1, HELD_BYTES);
    }
}

__attribute__((noinline)) static void site_grown(void) {
    kept = malloc(GROWN_BYTES);
    if (kept) memset(kept, 1, GROWN_BYTES);
}

__attribute__((noinline)) static void site_small(void) { kept = malloc(SMALL_BYTES); }

/* Far more than there is address space. */
__attribute__((noinline)) static void site_huge(void) { kept = malloc((size_t)1 << 50); }

int main(int argc, char **argv) {
    const char *way = argv[1];
    site_held();
    if (!strcmp(way, "grow"))
        for (;;) site_grown();
    if (!strcmp(way, "kill")) raise(SIGKILL);
    if (!strcmp(way, "kill-later")) {
        sleep(2);
        raise(SIGKILL);
    }
    if (!strcmp(way, "segv")) raise(SIGSEGV);
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "_exit")) _exit(3);
    if (!strcmp(way, "exit")) exit(7);
    if (!strcmp(way, "exhausted")) {
        limit(8 << 20);
        do site_small();
        while (kept);
        abort();
    }
    if (!strcmp(way, "limited-abort")) {
        limit(8 << 20);
        abort();
    }
    if (!strcmp(way, "huge")) {
        site_huge();
        if (!kept) abort();
    }
    if (!strcmp(way, "huge-exit")) {
        site_huge();
        if (!kept) return 5;
    }
    if (!strcmp(way, "small-then-large")) {
        /* The small ones make the profile large; nobody touches its pages any more when the large ones come. */
        for (long blocks = atol(argv[2]); blocks > 0; blocks--) site_small();
        for (long blocks = atol(argv[3]); blocks > 0; blocks--) site_grown();
        return 0;
    }
    if (!strcmp(way, "wait")) {
        puts("ready");
        fflush(stdout);
        getchar();
        return 4;
    }
    return 99;
}
