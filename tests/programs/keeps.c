// Programs that suffer from exactly one thing each, scaled by an argument: keeps CAUSE MIB [THREADS]. Says what mallinfo says, then waits;
// at SIGUSR1 it trims and says it again.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Not in glibc before 2.33.
extern struct mallinfo2 mallinfo2(void) __attribute__((weak));

static char output[4096];
static size_t total;
static pthread_barrier_t filled;

static void *block(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) abort();
    memset(memory, 1, bytes);
    return memory;
}

// Objects of 1,000 bytes, of which 1 in 2,000 survives: live memory is small, but lies everywhere.
static void survivors(void) {
    size_t count = total / 1008;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = block(1000);
    for (size_t i = 0; i < count; i++)
        if (i % 2000 != 0) free(all[i]);
    // In the middle, so that the top stays where it is.
    free(all);
}

// Objects of 48 bytes: all but the last few go to the fastbins, which no free ever empties.
static void fastbins(void) {
    size_t count = total / 64;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = block(48);
    void *top = block(4096);
    for (size_t i = 0; i < count; i++) free(all[i]);
    (void)top;
    // `all` was mapped.
    free(all);
}

static void *one_arena(void *bytes) {
    size_t count = (size_t)bytes / 1008;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = block(1000);
    for (size_t i = 0; i < count; i++)
        if (i % 2 == 1) free(all[i]);
    pthread_barrier_wait(&filled);
    for (;;) pause();
}

// Each thread fills an arena of its own and frees every second object of it.
static void arenas(int threads) {
    pthread_barrier_init(&filled, NULL, threads + 1);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, one_arena, (void *)(total / threads));
    }
    pthread_barrier_wait(&filled);
}

// With GLIBC_TUNABLES=glibc.malloc.tcache_count=65535 the cache of a single thread takes it all.
static void tcache(void) {
    size_t count = total / 1008;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = block(1000);
    void *top = block(4096);
    for (size_t i = 0; i < count; i++) free(all[i]);
    (void)top;
    free(all);
}

static void maps(void) {
    void *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, total);
}

// Objects that nobody holds any more, a few of them large enough to be mapped.
static void leak(void) {
    for (size_t i = 0; i < total / 2 / 112; i++) block(100);
    for (size_t i = 0; i < 4; i++) block(total / 8);
}

// Blocks larger than the mmap threshold, one of them aligned.
static void large(void) {
    for (size_t i = 0; i < 7; i++) memset(malloc(total / 8), 1, total / 16);
    memset(aligned_alloc(65536, total / 8 / 65536 * 65536), 1, 4096);
}

static void *allocate_and_free(void *bytes) {
    void *all[4096] = {0};
    unsigned seed = (unsigned)(size_t)bytes;
    for (;;) {
        size_t i = rand_r(&seed) % 4096;
        free(all[i]);
        all[i] = malloc(rand_r(&seed) % 3000);
    }
}

static void busy(int threads) {
    arenas(threads);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, allocate_and_free, (void *)(size_t)(i + 1));
    }
}

static void say(void) {
    if (mallinfo2 != NULL) {
        struct mallinfo2 info = mallinfo2();
        printf("arena %zu\nuordblks %zu\nfordblks %zu\nfsmblks %zu\nhblkhd %zu\nhblks %zu\nkeepcost %zu\n", info.arena,
               info.uordblks, info.fordblks, info.fsmblks, info.hblkhd, info.hblks, info.keepcost);
    } else {
        struct mallinfo info = mallinfo();
        printf("arena %d\nuordblks %d\nfordblks %d\nfsmblks %d\nhblkhd %d\nhblks %d\nkeepcost %d\n", info.arena, info.uordblks,
               info.fordblks, info.fsmblks, info.hblkhd, info.hblks, info.keepcost);
    }
    printf("ready\n");
    fflush(stdout);
}

int main(int count, char **arguments) {
    // Before there are threads, which inherit it.
    sigset_t trim;
    sigemptyset(&trim);
    sigaddset(&trim, SIGUSR1);
    sigprocmask(SIG_BLOCK, &trim, NULL);
    setvbuf(stdout, output, _IOFBF, sizeof output);
    const char *cause = count > 1 ? arguments[1] : "";
    total = count > 2 ? strtoull(arguments[2], NULL, 10) << 20 : 16 << 20;
    int threads = count > 3 ? atoi(arguments[3]) : 4;
    if (strcmp(cause, "survivors") == 0) survivors();
    else if (strcmp(cause, "fastbins") == 0) fastbins();
    else if (strcmp(cause, "arenas") == 0) arenas(threads);
    else if (strcmp(cause, "tcache") == 0) tcache();
    else if (strcmp(cause, "maps") == 0) maps();
    else if (strcmp(cause, "leak") == 0) leak();
    else if (strcmp(cause, "large") == 0) large();
    else if (strcmp(cause, "busy") == 0) busy(threads);
    else return 2;
    say();
    for (int signal; sigwait(&trim, &signal) == 0;) {
        malloc_trim(0);
        say();
    }
}
