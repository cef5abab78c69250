/* Ends in the way that its argument names, with 11 live objects of 5,001 bytes. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *volatile kept;

__attribute__((noinline)) static void site_live(void) {
    for (int i = 0; i < 11; i++) kept = malloc(5001);
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    site_live();
    if (!strcmp(way, "return")) return 7;
    if (!strcmp(way, "exit")) exit(7);
    if (!strcmp(way, "_exit")) _exit(3);
    if (!strcmp(way, "_Exit")) _Exit(4);
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "kill")) raise(SIGKILL);
    if (!strcmp(way, "exec")) execl(argv[0], argv[0], "return", (char *)NULL);
    if (!strcmp(way, "chdir")) return chdir(argv[2]) != 0;
    if (!strcmp(way, "sleep")) {
        puts("ready");
        fflush(stdout);
        sleep(60);
    }
    if (!strcmp(way, "replace")) {
        /* Somebody deletes the profile and makes a file of that name. */
        FILE *other = unlink(argv[2]) == 0 ? fopen(argv[2], "w") : NULL;
        if (!other || fputs("another's", other) < 0 || fclose(other) != 0) return 98;
        return 7;
    }
    return 99;
}
