/* leaderless: its first thread ends, the other one waits for the end of standard input. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *wait_for_end(void *unused) {
    char byte;
    while (read(0, &byte, 1) > 0) {}
    exit(0);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_end, NULL);
    pthread_exit(NULL);
}
