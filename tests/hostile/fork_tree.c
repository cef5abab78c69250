/* A tree of processes, five deep and two wide, all allocating; half of them leave while their children still run, from a
   second thread. The root adopts these, so that it hears how every one of them ended. */
#include "hostile.h"
#include <pthread.h>
#include <sys/prctl.h>

static int to_root;

static void grow(int depth);

static void *grow_thread(void *depth) {
    grow(*(int *)depth);
    return NULL;
}

static void grow(int depth) {
    churn(300);
    CHECK(write(to_root, "x", 1) == 1);
    if (depth == 5) return;
    void *inherited = used(10000);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int next = depth + 1;
            pthread_t thread;
            free(inherited);
            CHECK(pthread_create(&thread, NULL, grow_thread, &next) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
            exit(0);
        }
        if (i == 0) CHECK(status_of(child) == 0);
    }
    free(inherited);
}

int main(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    to_root = ends[1];
    grow(0);
    close(ends[1]);
    int processes = 0;
    char byte;
    while (read(ends[0], &byte, 1) == 1) processes++;
    printf("%d processes\n", processes);
    int status;
    while (wait(&status) > 0) CHECK(status == 0);
    return 0;
}
