/* Uses of mmap, munmap and mremap: one site for each corner, with sizes of its own. The answer that a call must give is
   checked here, how it was counted outside. The argument chooses a part; without one, all corners of one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MiB (1ul << 20)
#define RW (PROT_READ | PROT_WRITE)
#define SITE(name) __attribute__((noinline, noclone)) static void name(void)
#define CHECK(truth) \
    do { \
        if (!(truth)) { \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #truth, errno); \
            failures++; \
        } \
    } while (0)

static int failures;
static int file = -1;

/* A macro, so that the site itself is the caller. */
#define MAP(bytes) \
    ({ \
        char *mapped = mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); \
        CHECK(mapped != MAP_FAILED); \
        mapped; \
    })

__attribute__((constructor)) static void site_constructor(void) {
    char *first = MAP(7 * MiB);
    first[0] = 1;
}

SITE(site_shared) {
    char *first = mmap64(NULL, 2 * MiB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(first != MAP_FAILED);
    first[0] = 1;
}

SITE(site_odd_length) {
    char *first = MAP(1 * MiB + 5000), *second = MAP(1 * MiB + 5000);
    CHECK(munmap(first, 1 * MiB + 4097) == 0);
    second[1 * MiB + 4096] = 1;
}

SITE(site_file) {
    char *first = mmap(NULL, 2 * MiB, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(first != MAP_FAILED);
}

SITE(site_reservation) {
    CHECK(mmap(NULL, 3ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
}

SITE(site_commit) {
    char *reserved = mmap(NULL, 1ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mmap(reserved + 16 * MiB, 3 * MiB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == reserved + 16 * MiB);
}

SITE(site_head) {
    char *first = MAP(4 * MiB);
    CHECK(munmap(first, 1 * MiB) == 0);
}

SITE(site_tail) {
    char *first = MAP(4 * MiB);
    CHECK(munmap(first + 1 * MiB, 3 * MiB) == 0);
}

SITE(site_several) {
    char *place = mmap(NULL, 16 * MiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++)
        CHECK(mmap(place + i * 4 * MiB, 4 * MiB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place + i * 4 * MiB);
    CHECK(munmap(place + 4 * MiB, 8 * MiB) == 0);
    CHECK(munmap(place + 12 * MiB, 4 * MiB) == 0);
}

SITE(site_under) {
    char *first = MAP(4 * MiB);
    extern void over(char *);
    over(first);
}

void over(char *first) {
    CHECK(mmap(first, 1 * MiB, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == first);
    errno = 0;
    CHECK(mmap(first + 1 * MiB, 4096, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
    CHECK(mmap(first + 1 * MiB, 1 * MiB, RW, MAP_PRIVATE | MAP_FIXED, 12345, 0) == MAP_FAILED && errno == EBADF);
}

SITE(site_fails) {
    char *first = MAP(2 * MiB);
    errno = 0;
    CHECK(munmap(first + 1, 4096) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(munmap(first, 0) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(munmap(first, SIZE_MAX) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(munmap((void *)4096, 1ul << 60) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(mmap(NULL, 0, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
    errno = 0;
    CHECK(mmap(NULL, 1ul << 60, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    errno = 0;
    CHECK(mremap(first + 1, 4096, 8192, 0) == MAP_FAILED && errno == EINVAL);
    errno = 0;
    CHECK(mremap(first, 2 * MiB, 0, 0) == MAP_FAILED && errno == EINVAL);
    errno = 0;
    CHECK(mremap(first, 2 * MiB, 1ul << 46, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
}

SITE(site_grow) {
    char *first = MAP(2 * MiB);
    first[0] = 7;
    first = mremap(first, 2 * MiB, 6 * MiB, MREMAP_MAYMOVE);
    CHECK(first != MAP_FAILED && first[0] == 7);
}

SITE(site_grow_small) {
    char *first = MAP(4096);
    first[0] = 7;
    first = mremap(first, 4096, 3 * MiB, MREMAP_MAYMOVE);
    CHECK(first != MAP_FAILED && first[0] == 7);
}

SITE(site_grow_file) {
    char *first = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    first = mremap(first, 4096, 3 * MiB, MREMAP_MAYMOVE);
    CHECK(first != MAP_FAILED);
    CHECK(mremap(first, 3 * MiB, 6 * MiB, MREMAP_MAYMOVE) != MAP_FAILED);
}

SITE(site_shrink) {
    char *first = MAP(6 * MiB);
    CHECK(mremap(first, 6 * MiB, 2 * MiB, 0) == first);
}

SITE(site_same) {
    char *first = MAP(5 * MiB);
    CHECK(mremap(first, 5 * MiB, 5 * MiB, MREMAP_MAYMOVE) == first);
}

static char *place(size_t bytes) {
    char *free_place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(free_place, bytes) == 0);
    return free_place;
}

SITE(site_move) {
    char *first = MAP(4 * MiB);
    first[1 * MiB] = 7;
    CHECK(munmap(first, 1 * MiB) == 0);
    /* Over a mapping of its own site. */
    char *second = MAP(3 * MiB);
    CHECK(mremap(first + 1 * MiB, 3 * MiB, 3 * MiB, MREMAP_MAYMOVE | MREMAP_FIXED, second) == second && second[0] == 7);
}

SITE(site_move_shrunk) {
    char *first = MAP(4 * MiB);
    char *second = place(4 * MiB);
    CHECK(mremap(first, 4 * MiB, 1 * MiB, MREMAP_MAYMOVE | MREMAP_FIXED, second) == second);
}

SITE(site_blocked) {
    char *reserved = mmap(NULL, 8 * MiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *first = mmap(reserved, 4 * MiB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = 0;
    CHECK(mremap(first, 4 * MiB, 5 * MiB, 0) == MAP_FAILED && errno == ENOMEM);
}

SITE(site_dontunmap) {
    char *first = MAP(2 * MiB);
    first[0] = 7;
    char *second = mremap(first, 2 * MiB, 2 * MiB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(second != MAP_FAILED && second[0] == 7 && first[0] == 0);
}

SITE(site_errno) {
    for (int i = 1; i < 500; i++) {
        errno = i;
        char *first = mmap(NULL, 1 * MiB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(errno == i);
        first = mremap(first, 1 * MiB, 2 * MiB, MREMAP_MAYMOVE);
        CHECK(errno == i);
        CHECK(munmap(first, 2 * MiB) == 0 && errno == i);
    }
}

/* Unmapped, and mapped over, in the middle. Last, as the kernel puts later mappings into holes. */
SITE(site_hole) {
    char *first = MAP(16 * MiB);
    CHECK(munmap(first + 2 * MiB, 1 * MiB) == 0);
    CHECK(munmap(first + 5 * MiB, 1 * MiB) == 0);
    /* Nothing is there. */
    CHECK(munmap(first + 5 * MiB, 4096) == 0);
    CHECK(mmap(first + 8 * MiB, 1 * MiB, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == first + 8 * MiB);
    memset(first + 9 * MiB, 1, 7 * MiB);
}

/* As many mappings as the kernel allows; then what it refuses to unmap, as that would make one more, is still there. */
SITE(site_refused) {
    char *first = MAP(16 * MiB), *below = MAP(16 * MiB);
    if (below + 16 * MiB != first) _exit(8);
    for (long count = 0; count < 1 << 20; count++) {
        int protection = count % 2 ? RW : PROT_READ;
        if (mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    }
    errno = 0;
    if (munmap(first, 1 * MiB) != -1 || errno != ENOMEM) _exit(9);
    _exit(0);
}

SITE(site_many) {
    for (int i = 0; i < 4000; i++)
        CHECK(mmap(NULL, 1 * MiB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
}

static volatile sig_atomic_t signals;

__attribute__((noinline, noclone)) static void site_handler(int number) {
    int before = errno;
    char *first = mmap(NULL, 1 * MiB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (first == MAP_FAILED || munmap(first, 1 * MiB) != 0) _exit(8);
    signals += number == SIGALRM;
    errno = before;
}

SITE(site_interrupted) {
    struct itimerval timer = {{0, 100}, {0, 100}};
    signal(SIGALRM, site_handler);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 20000 || (signals < 100 && i < 10000000); i++) {
        char *first = MAP(2 * MiB);
        CHECK(munmap(first, 4096) == 0);
        CHECK(munmap(first + 2 * MiB - 4096, 4096) == 0);
        free(malloc(100));
        CHECK(munmap(first + 4096, 2 * MiB - 8192) == 0);
    }
    timer.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    CHECK(signals >= 100);
    MAP(1 * MiB);
}

SITE(site_vfork) {
    char *first = MAP(4 * MiB);
    pid_t child = vfork();
    if (child == 0) _exit(munmap(first, 1 * MiB));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

SITE(site_child) {
    MAP(36 * MiB);
}

SITE(site_fork) {
    char *first = MAP(4 * MiB);
    pid_t child = fork();
    if (child == 0) {
        CHECK(munmap(first, 1 * MiB) == 0);
        site_child();
        exit(failures);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("child %d\n", child);
}

enum { THREADS = 8 };

__attribute__((noinline, noclone)) static void *site_threads(void *unused) {
    for (int i = 0; i < 3000; i++) {
        char *first = MAP(1 * MiB);
        first[0] = 1;
        CHECK(munmap(first, 1 * MiB) == 0);
    }
    MAP(1 * MiB);
    return unused;
}

static void run_threads(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void *)i);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void corners(void) {
    site_shared();
    site_odd_length();
    site_file();
    site_reservation();
    site_commit();
    site_head();
    site_tail();
    site_several();
    site_under();
    site_fails();
    site_grow();
    site_grow_small();
    site_grow_file();
    site_shrink();
    site_same();
    site_move();
    site_move_shrunk();
    site_blocked();
    site_dontunmap();
    site_errno();
    site_hole();
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "corners";
    file = open("/proc/self/exe", O_RDONLY);
    if (!strcmp(part, "corners")) corners();
    if (!strcmp(part, "refused")) site_refused();
    if (!strcmp(part, "interrupted")) site_interrupted();
    if (!strcmp(part, "vfork")) site_vfork();
    if (!strcmp(part, "fork")) site_fork();
    if (!strcmp(part, "threads")) run_threads(site_threads);
    if (!strcmp(part, "many")) site_many();
    if (!strcmp(part, "holes")) {
        site_hole();
        puts("ready");
        fflush(stdout);
        pause();
    }
    if (!strcmp(part, "killed")) {
        corners();
        kill(getpid(), SIGKILL);
    }
    return failures != 0;
}
