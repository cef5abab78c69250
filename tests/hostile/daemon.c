/* A daemon: fork, setsid, fork, chdir, descriptors closed; the first process has left long before the daemon allocates. */
#include "hostile.h"
#include <fcntl.h>

int main(void) {
    int ends[2];
    void *inherited = used(100000);
    churn(300);
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        churn(100);
        CHECK(setsid() > 0);
        child = fork();
        if (child != 0) _exit(0);
        CHECK(chdir("/") == 0);
        int null = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++) dup2(null, i);
        while (getppid() == child) {}
        free(inherited);
        churn(1000);
        CHECK(write(ends[1], "daemon has allocated\n", 21) == 21);
        exit(0);
    }
    close(ends[1]);
    CHECK(status_of(child) == 0);
    char text[100];
    ssize_t length = read(ends[0], text, sizeof text);
    CHECK(length > 0 && write(1, text, length) == length);
    /* Its end of the pipe closes when it has ended. */
    CHECK(read(ends[0], text, sizeof text) == 0);
    return 0;
}
