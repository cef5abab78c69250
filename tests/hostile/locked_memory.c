/* Effects of mlockall: as root, where everything new is locked; and as a user whose RLIMIT_MEMLOCK leaves room for the program only, with
   MCL_FUTURE before the first sample and after it. What ramson maps for its first sample under MCL_FUTURE is not taken whole.
   needs: root */
#include "hostile.h"
#include <sys/mman.h>
#include <sys/resource.h>

/* Resident, in pages of 4 KiB. */
static long resident(void) {
    long pages = -1;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%*d %ld", &pages) == 1);
    fclose(statm);
    return pages;
}

static int try(int is_user, int flags, int is_sampled_before) {
    pid_t child = fork();
    if (child != 0) return status_of(child);
    if (is_sampled_before) take_a_certain_sample();
    if (is_user) {
        CHECK(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){8 << 20, 8 << 20}) == 0);
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    }
    int result = mlockall(flags);
    churn(1000);
    for (int i = 0; i < 10000; i++) free(malloc(i));
    for (int i = 0; i < 20; i++) free(malloc(4 << 20));
    if (flags == MCL_FUTURE) CHECK(resident() < (48 << 20) / 4096);
    _exit(result == 0 ? 0 : errno);
}

int main(void) {
    for (int i = 0; i < 2; i++) {
        printf("root, from now on: %d\n", try(0, MCL_FUTURE, i));
        printf("root, all: %d\n", try(0, MCL_CURRENT | MCL_FUTURE, i));
        printf("user, from now on: %d\n", try(1, MCL_FUTURE, i));
        printf("user, on fault: %d\n", try(1, MCL_FUTURE | MCL_ONFAULT, i));
        fflush(stdout);
    }
    return 0;
}
