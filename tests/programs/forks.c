/* Makes children in the way that its argument names. The parent's truth: 100 objects of 6,001 bytes, 60 freed at the end;
   the child's: 80 objects of 6,002 bytes, 10 freed. Prints "child PID" for children that allocate; a child with few of them has 5 objects of 6,003 bytes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *blocks[100];
static void *volatile kept;
static char *program;

__attribute__((noinline)) static void site_parent(void) {
    for (int i = 0; i < 100; i++) blocks[i] = malloc(6001);
}

__attribute__((noinline)) static void site_child(void) {
    void *own[80];
    for (int i = 0; i < 80; i++) own[i] = malloc(6002);
    for (int i = 0; i < 10; i++) free(own[i]);
    kept = own[79];
}

__attribute__((noinline)) static void site_few(void) {
    for (int i = 0; i < 5; i++) kept = malloc(6003);
}

static void free_blocks(int from, int to) {
    for (int i = from; i < to; i++) free(blocks[i]);
}

static void wait_for(pid_t child, int code) {
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != code) {
        fprintf(stderr, "child %d: status %x\n", child, status);
        _exit(90);
    }
}

static atomic_int stop;

static void *allocate_all_the_time(void *unused) {
    while (!stop) {
        void *some[20];
        for (int i = 0; i < 20; i++) some[i] = malloc(50 + i);
        for (int i = 0; i < 20; i++) free(some[i]);
    }
    return unused;
}

static void *fork_again_and_again(void *unused) {
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            site_child();
            free_blocks(0, 100);
            _exit(0);
        }
        wait_for(child, 0);
    }
    return unused;
}

static int share(void *unused) {
    (void)unused;
    site_child();
    _exit(0);
}

static void share_memory(void) {
    static char stack[256 << 10];
    wait_for(clone(share, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), 0);
}

static void print_child(pid_t child) {
    printf("child %d\n", child);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    program = argv[0];
    if (!strcmp(way, "child")) {
        site_child();
        return 0;
    }
    pid_t child = -1;
    /* Its first allocation is the first of all. */
    if (!strcmp(way, "share")) share_memory();
    setvbuf(stdout, NULL, _IONBF, 0);
    site_parent();
    if (!strcmp(way, "share")) share_memory();
    char *arguments[] = {program, "child", NULL};
    if (!strcmp(way, "fork")) {
        child = fork();
        if (child == 0) {
            site_child();
            free_blocks(0, 100);
            exit(0);
        }
        print_child(child);
        wait_for(child, 0);
    } else if (!strcmp(way, "fork-free")) {
        /* The child only frees what the parent allocated, and shrinks one block. */
        child = fork();
        if (child == 0) {
            free_blocks(0, 100);
            _exit(0);
        }
        wait_for(child, 0);
    } else if (!strcmp(way, "grandchild")) {
        child = fork();
        if (child == 0) {
            pid_t grandchild = fork();
            if (grandchild == 0) {
                site_child();
                exit(0);
            }
            print_child(grandchild);
            wait_for(grandchild, 0);
            _exit(0);
        }
        wait_for(child, 0);
    } else if (!strcmp(way, "vfork-exec")) {
        child = vfork();
        if (child == 0) {
            execv(program, arguments);
            _exit(91);
        }
        print_child(child);
        wait_for(child, 0);
    } else if (!strcmp(way, "vfork-exit")) {
        child = vfork();
        if (child == 0) _exit(5);
        wait_for(child, 5);
    } else if (!strcmp(way, "spawn")) {
        if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0) return 92;
        print_child(child);
        wait_for(child, 0);
    } else if (!strcmp(way, "clone")) {
        child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            site_child();
            _exit(0);
        }
        print_child(child);
        wait_for(child, 0);
    } else if (!strcmp(way, "few")) {
        /* Two children with few blocks: one ends, the other goes on, and allocates more once it gets a signal. */
        child = fork();
        if (child == 0) {
            site_few();
            _exit(0);
        }
        wait_for(child, 0);
        sigset_t usr1;
        sigemptyset(&usr1);
        sigaddset(&usr1, SIGUSR1);
        sigprocmask(SIG_BLOCK, &usr1, NULL);
        child = fork();
        if (child == 0) {
            site_few();
            printf("few %d\n", getpid());
            int signal;
            sigwait(&usr1, &signal);
            site_child();
            printf("many\n");
            pause();
        }
        int status;
        waitpid(child, &status, 0);
    } else if (!strcmp(way, "threads")) {
        pthread_t busy[2], forking;
        for (int i = 0; i < 2; i++) pthread_create(&busy[i], NULL, allocate_all_the_time, NULL);
        pthread_create(&forking, NULL, fork_again_and_again, NULL);
        pthread_join(forking, NULL);
        stop = 1;
        for (int i = 0; i < 2; i++) pthread_join(busy[i], NULL);
    }
    free_blocks(0, 60);
    return 0;
}
