/* Makes the relatives that its argument names. The parent's truth: 100 objects of 6,001 bytes, 60 freed at the end; that of each
   relative: 80 objects of 6,002 bytes, 10 freed. Prints "relative PID" for each. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *blocks[100];
static void *volatile kept;

__attribute__((noinline)) static void site_parent(void) {
    for (int i = 0; i < 100; i++) blocks[i] = malloc(6001);
}

__attribute__((noinline)) static void site_relative(void) {
    void *own[80];
    for (int i = 0; i < 80; i++) own[i] = malloc(6002);
    for (int i = 0; i < 10; i++) free(own[i]);
    kept = own[79];
}

static void be_relative(void) {
    site_relative();
    dprintf(1, "relative %ld\n", syscall(SYS_getpid));
}

static void free_inherited(void) {
    for (int i = 0; i < 100; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void wait_for(pid_t child) {
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        dprintf(2, "child %d: status %x\n", child, status);
        _exit(90);
    }
}

/* Five generations, each made by the second thread of the one before. */
static void *next_generation(void *left) {
    pthread_t thread;
    pid_t child = fork();
    if (child == 0) {
        free_inherited();
        be_relative();
        if (left && pthread_create(&thread, NULL, next_generation, (char *)left - 1) != 0) _exit(91);
        if (left) pthread_join(thread, NULL);
        exit(0);
    }
    wait_for(child);
    return NULL;
}

static int shares_memory(void *unused) {
    (void)unused;
    be_relative();
    return 0;
}

static void become_daemon(void) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0) _exit(92);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        while (getppid() == child) {}
        free_inherited();
        be_relative();
        exit(0);
    }
    close(ends[1]);
    wait_for(child);
    /* The daemon's end closes when it has ended. */
    if (read(ends[0], &byte, 1) != 0) _exit(93);
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    char *again[] = {argv[0], "relative", NULL};
    if (argc < 2) return 94;
    if (!strcmp(way, "relative")) {
        be_relative();
        return 0;
    }
    site_parent();
    if (!strcmp(way, "generations")) next_generation((void *)4);
    if (!strcmp(way, "daemon")) become_daemon();
    if (!strcmp(way, "shared")) {
        static _Alignas(16) char stack[1 << 20];
        wait_for(clone(shares_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL));
    }
    for (int i = 0; !strcmp(way, "few-children") && i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int block = 0; block < 5; block++) kept = malloc(6003);
            _exit(0);
        }
        wait_for(child);
    }
    if (!strcmp(way, "a-short-child")) {
        pid_t child = fork();
        if (child == 0) {
            for (int block = 0; block < 20; block++) kept = memset(malloc(100000), 1, 100000);
            _exit(0);
        }
        wait_for(child);
    }
    if (!strcmp(way, "failed-exec") || !strcmp(way, "fexecve")) {
        pid_t child = fork();
        if (child == 0) {
            if (execve("/proc/self/absent", again, environ) != -1 || errno != ENOENT) _exit(95);
            if (!strcmp(way, "fexecve")) fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), again, environ);
            free_inherited();
            be_relative();
            exit(0);
        }
        wait_for(child);
    }
    for (int i = 0; i < 60; i++) free(blocks[i]);
    return 0;
}
