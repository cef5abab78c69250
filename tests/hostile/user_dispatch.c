/* System calls from outside of the C library's code are SIGSYS (PR_SET_SYSCALL_USER_DISPATCH, as Wine has it for the code of Windows
   programs): by prctl and by syscall, before the first sample and after it.
   representative */
#include "hostile.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { SET_SYSCALL_USER_DISPATCH = 59, ON = 1 };

static char selector;
static unsigned long libc_low, libc_high;

static void on_foreign_call(int signal) {
    (void)signal;
    selector = 0;
    _exit(9);
}

static void find_libc(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, "/libc.so") && strstr(line, "r-xp")) CHECK(sscanf(line, "%lx-%lx", &libc_low, &libc_high) == 2);
    }
    fclose(maps);
    CHECK(libc_low != 0);
}

int main(void) {
    find_libc();
    for (int round = 0; round < 4; round++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSYS, on_foreign_call);
            if (round % 2) take_a_certain_sample();
            long bytes = libc_high - libc_low, by_prctl = round < 2;
            long result = by_prctl ? prctl(SET_SYSCALL_USER_DISPATCH, ON, libc_low, bytes, &selector)
                                   : syscall(SYS_prctl, SET_SYSCALL_USER_DISPATCH, ON, libc_low, bytes, &selector);
            CHECK(result == 0);
            selector = 1;
            churn(3000);
            take_a_certain_sample();
            selector = 0;
            exit(3);
        }
        printf("%d: %d\n", round, status_of(child));
    }
    return 0;
}
