/* Storms of small allocations and quiet times. "governed mixture": 150 rounds of storm, then 300 without, some blocks kept in
   each; prints the truth. "governed storm MS": one storm, "governed rest MS MS": then sparse allocations; "governed fork MS": then a child that
   allocates a little, and prints its process id. "governed threads MS": the storm comes after 400 threads have drawn
   their countdowns; then each allocates 20 blocks of 96 bytes. "governed extents COUNT": maps and unmaps 2 MiB so often,
   at most 1,100 times a second, and allocates 20,000 bytes each time. All print how much they allocated. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long inuse_space, inuse_objects, alloc_space, alloc_objects;

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void pairs(int count) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
    alloc_space += 100ul * count;
    alloc_objects += count;
}

static void keep(size_t size, int count) {
    for (int i = 0; i < count; i++) malloc(size);
    alloc_space += size * count;
    alloc_objects += count;
    inuse_space += size * count;
    inuse_objects += count;
}

static void mixture(void) {
    for (int round = 0; round < 450; round++) {
        double start = now_ms();
        if (round < 150) pairs(100000);
        keep(100, 2000);
        keep(4000, 10);
        keep(60000, 2);
        while (now_ms() < start + 2) continue;
    }
}

static void storm(double ms) {
    for (double end = now_ms() + ms; now_ms() < end;) pairs(1000);
}

static void sparse(double ms) {
    for (double end = now_ms() + ms; now_ms() < end;) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        pairs(10);
    }
}

static void in_child(void) {
    pid_t child = fork();
    if (child == 0) {
        keep(10000, 100);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("child %d\n", (int)child);
}

static void extents(int count) {
    for (; count > 0; count--) {
        char *extent = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *extent = 1;
        keep(20000, 1);
        munmap(extent, 2 << 20);
        struct timespec pause = {0, 900000};
        nanosleep(&pause, NULL);
    }
}

static pthread_barrier_t drawn, go;

static void *thread(void *unused) {
    (void)unused;
    free(malloc(1));
    pthread_barrier_wait(&drawn);
    pthread_barrier_wait(&go);
    for (int i = 0; i < 20; i++) malloc(96);
    return NULL;
}

static void threads(double ms) {
    pthread_t ids[400];
    pthread_barrier_init(&drawn, NULL, 401);
    pthread_barrier_init(&go, NULL, 401);
    for (int i = 0; i < 400; i++) pthread_create(&ids[i], NULL, thread, NULL);
    pthread_barrier_wait(&drawn);
    storm(ms);
    pthread_barrier_wait(&go);
    for (int i = 0; i < 400; i++) pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "mixture")) mixture();
    if (!strcmp(argv[1], "threads")) threads(atof(argv[2]));
    else if (!strcmp(argv[1], "extents")) extents(atoi(argv[2]));
    else if (strcmp(argv[1], "mixture")) storm(atof(argv[2]));
    if (!strcmp(argv[1], "fork")) in_child();
    if (!strcmp(argv[1], "rest")) sparse(atof(argv[3]));
    printf("inuse_space %lu\ninuse_objects %lu\nalloc_space %lu\nalloc_objects %lu\n", inuse_space, inuse_objects,
           alloc_space, alloc_objects);
    return 0;
}
