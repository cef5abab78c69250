/* parent: the first thread forks children that live for two milliseconds, and waits for each; the other one waits in epoll_wait for lines on
   standard input, and says after each how often it was interrupted. SIGCHLD is ignored, as it is unless a program does something. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

static void *listen_to_lines(void *unused) {
    struct epoll_event event = {.events = EPOLLIN};
    int events = epoll_create1(0);
    char line[100];
    long interrupted = 0;
    if (epoll_ctl(events, EPOLL_CTL_ADD, 0, &event)) exit(1);
    for (;;) {
        if (epoll_wait(events, &event, 1, -1) == 1) {
            if (read(0, line, sizeof line) <= 0) exit(0);
            printf("interrupted %ld\n", interrupted);
            fflush(stdout);
        } else {
            interrupted += errno == EINTR;
        }
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, listen_to_lines, NULL)) return 1;
    printf("ready 0\n");
    fflush(stdout);
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            usleep(2000);
            _exit(0);
        }
        while (waitpid(child, NULL, 0) == -1 && errno == EINTR) {}
        free(malloc(1000));
    }
}
