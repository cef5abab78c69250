/* frees MODE: what recent frees must tell. Every mode prints the addresses that it is about.
   crash: uses a block after its free by another function, and dies of it.
   moves: a realloc that moves, one that stays in place, and one that frees.
   forks: parent and child each free a block.
   many COUNT: so many blocks of 100, 101, … bytes, each freed at once.
   probes: waits for a byte; then three parts, each begun by SIGUSR1: allocations that nobody listens to, some that somebody does,
   and what was done. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct session {
    char name[40];
    void (*close)(struct session *);
};

static void close_quietly(struct session *session) { session->name[0] = 0; }

static struct session *make_session(void) {
    struct session *session = malloc(sizeof *session);
    strcpy(session->name, "one");
    session->close = close_quietly;
    return session;
}

static void drop_session(struct session *session) {
    session->close(session);
    free(session);
}

static void crash(void) {
    struct session *session = make_session();
    printf("session %p\n", (void *)session);
    fflush(stdout);
    uintptr_t freed = (uintptr_t)session;
    drop_session(session);
    /* As a program would that calls through memory that is somebody else's by now: to an address that nothing is at. */
    ((void (*)(uintptr_t))(freed >> 40))(freed);
}

static void *grow_far(void *block) { return realloc(block, 1 << 20); }
static void free_by_realloc(void *block) {
    void *none = realloc(block, 0);
    __asm__ volatile("" : : "r"(none) : "memory");
}

static void moves(void) {
    void *moved = malloc(300), *barrier = malloc(16), *stays = malloc(64 << 10), *gone = malloc(77);
    printf("moved %p\nstays %p\ngone %p\n", moved, stays, gone);
    void *far = grow_far(moved);
    void *same = realloc(stays, 32 << 10);
    free_by_realloc(gone);
    printf("has_moved %d\nhas_stayed %d\n", far != moved, same == stays);
    __asm__ volatile("" : : "r"(barrier), "r"(far), "r"(same) : "memory");
}

static void free_in_child(void *block) { free(block); }
static void free_in_parent(void *block) { free(block); }

static void forks(void) {
    void *before = malloc(500);
    pid_t child = fork();
    void *own = malloc(child ? 501 : 502);
    if (!child) {
        free_in_child(own);
        /* Sampled by the parent; the child's profile does not know it. */
        free(before);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    free_in_parent(own);
    printf("child %d\n", child);
}

static void many(int count) {
    for (int size = 100; size < 100 + count; size++) free(malloc(size));
}

static char line[64];

static struct { void *address; int size; } made[16];
static int count;

static void *remember(void *address, int size) {
    made[count].address = address;
    made[count++].size = size;
    return address;
}

static void probes(void) {
    char byte;
    if (read(0, &byte, 1) != 1) abort();
    for (int part = 0; part < 2; part++) {
        raise(SIGUSR1);
        for (int size = 1000; size < 1004; size++) free(remember(malloc(size), size));
        free(remember(realloc(remember(malloc(300), 300), 1 << 20), 1 << 20));
    }
    raise(SIGUSR1);
    for (int i = count / 2; i < count; i++) printf("made %p %d\n", made[i].address, made[i].size);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, line, _IOFBF, 1);
    if (!strcmp(mode, "crash")) crash();
    if (!strcmp(mode, "moves")) moves();
    if (!strcmp(mode, "forks")) forks();
    if (!strcmp(mode, "many")) many(atoi(argv[2]));
    if (!strcmp(mode, "probes")) probes();
    fflush(stdout);
    return 0;
}
