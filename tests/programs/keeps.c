// Programs that suffer from exactly one thing each, scaled by an argument: keeps CAUSE MIB [THREADS or FILE or "off" or "first"]. Says what mallinfo says,
// then waits; at SIGUSR2 it says it again, at SIGUSR1 it trims before.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

// Not in glibc before 2.33.
extern struct mallinfo2 mallinfo2(void) __attribute__((weak));

static char output[4096];
static size_t total, cached_bytes;
static pthread_barrier_t filled;

static void *block(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) abort();
    memset(memory, 1, bytes);
    return memory;
}

static void *request(void) { return block(1000); }

static void *session(size_t bytes) { return block(bytes); }

// Objects of 1,000 bytes, of which 1 in 2,000 survives: live memory is small, but lies everywhere.
static void survivors(void) {
    size_t count = total / 1008;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = i % 2000 == 0 ? session(1000) : request();
    for (size_t i = 0; i < count; i++)
        if (i % 2000 != 0) free(all[i]);
    // In the middle, so that the top stays where it is.
    free(all);
}

// A small object that survives on each page, between others of another size; or all of these first, as if from a pool.
static void between(const char *how) {
    int is_pooled = strcmp(how, "first") == 0;
    size_t count = total / 3136;
    void **all = malloc(4 * count * sizeof *all);
    for (size_t i = 0; is_pooled && i < count; i++) all[4 * i + 3] = session(96);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) all[4 * i + k] = request();
        if (!is_pooled) all[4 * i + 3] = session(96);
    }
    for (size_t i = 0; i < 4 * count; i++)
        if (i % 4 != 3) free(all[i]);
    free(all);
}

// Free chunks in every bin but those of less than 128 bytes, which fastbins take: more of a size than a tcache holds, between blocks that stay.
static void fill_bins(void) {
    static const size_t steps[][2] = {{16, 1024}, {64, 3072}, {512, 10752}, {4096, 45056}, {32768, 163840}, {262144, 524288}, {1 << 20, 1 << 20}};
    size_t bytes = 136;
    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++)
        for (; bytes <= steps[step][1]; bytes += steps[step][0]) {
            void *all[20];
            for (int i = 0; i < 20; i++) all[i] = block(bytes);
            for (int i = 0; i < 20; i += 2) free(all[i]);
        }
    // Sorts what was freed into the bins.
    free(block(8 << 20));
}

static void *fill_bins_and_wait(void *unused) {
    fill_bins();
    pthread_barrier_wait(&filled);
    pause();
    return unused;
}

static void bins(void) {
    pthread_t thread;
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    fill_bins();
    pthread_barrier_init(&filled, NULL, 2);
    if (pthread_create(&thread, NULL, fill_bins_and_wait, NULL) != 0) abort();
    pthread_barrier_wait(&filled);
}

// Half of the objects, any of them, are freed: no page is free as a whole.
static void scattered(void) {
    size_t count = total / 160;
    unsigned seed = 1;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = block(150);
    for (size_t i = 0; i < count; i++)
        if (rand_r(&seed) % 2 == 0) free(all[i]);
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

// A large block that is freed moves the thresholds; what is freed after it stays at the top.
static void drift(void) {
    free(block(24 << 20));
    void *all[16];
    for (int i = 0; i < 16; i++) all[i] = block(total / 16);
    for (int i = 0; i < 16; i++) free(all[i]);
}

// Huge pages of which the program touches a quarter; without them if told so.
static void huge(const char *how) {
    const size_t bytes = 2 << 20;
    if (strcmp(how, "off") == 0) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    char *memory = mmap(NULL, total + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = (char *)(((size_t)memory + bytes - 1) / bytes * bytes);
    madvise(memory, total, MADV_HUGEPAGE);
    for (size_t i = 0; i < total; i += bytes) memset(memory + i, 1, bytes / 4);
}

// A file that grows with every look at it, in RSS only.
static void file(const char *path) {
    int descriptor = open(path, O_RDWR | O_CREAT, 0600);
    if (ftruncate(descriptor, total) != 0) abort();
    memset(mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), 1, total);
}

// One thread after the other does as above. In one arena, each would find what the ones before it have freed.
static void turns(int threads) {
    pthread_barrier_init(&filled, NULL, 2);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, one_arena, (void *)(total / threads));
        pthread_barrier_wait(&filled);
    }
}

// With GLIBC_TUNABLES=glibc.malloc.tcache_count=65535 the cache of a single thread takes it all.
static void tcache(void) {
    size_t count = total / 1008;
    void **all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++) all[i] = block(1000);
    for (size_t i = 0; i < count; i++) free(all[i]);
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

// Blocks of 24 bytes to 3 MiB, two of each size, for a tcache that was told to keep them. Beyond the mmap threshold they are mapped, and of
// large ones only the beginning was touched.
static void cached(void) {
    static void *all[256];
    size_t count = 0;
    for (size_t bytes = 24; bytes < 3 << 20; bytes += bytes / 4 / 16 * 16 + 16)
        for (int i = 0; i < 2; i++) {
            size_t *memory = all[count++] = malloc(bytes);
            memset(memory, 1, bytes < 65536 ? bytes : 65536);
            // The size of a block that was mapped leaves out 16 bytes, since glibc 2.43.
            cached_bytes += (memory[-1] & ~7) + (memory[-1] & 2 ? 16 : 0);
        }
    while (count > 0) free(all[--count]);
}

// Blocks that were mapped and grow; of two one is freed, or both.
static void resized(const char *how) {
    char *memory = NULL, *other = block(total / 16);
    for (size_t i = 1; i <= 8; i++) memory = realloc(memory, total / 16 * i);
    memset(memory, 1, total / 2);
    free(realloc(other, total / 8));
    if (strcmp(how, "off") == 0) free(memory);
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
    printf("cached %zu\nready\n", cached_bytes);
    fflush(stdout);
}

int main(int count, char **arguments) {
    // Before there are threads, which inherit it.
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    sigaddset(&asked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &asked, NULL);
    setvbuf(stdout, output, _IOFBF, sizeof output);
    const char *cause = count > 1 ? arguments[1] : "";
    total = count > 2 ? strtoull(arguments[2], NULL, 10) << 20 : 16 << 20;
    int threads = count > 3 ? atoi(arguments[3]) : 4;
    if (strcmp(cause, "survivors") == 0) survivors();
    else if (strcmp(cause, "fastbins") == 0) fastbins();
    else if (strcmp(cause, "bins") == 0) bins();
    else if (strcmp(cause, "between") == 0) between(count > 3 ? arguments[3] : "");
    else if (strcmp(cause, "arenas") == 0) arenas(threads);
    else if (strcmp(cause, "tcache") == 0) tcache();
    else if (strcmp(cause, "maps") == 0) maps();
    else if (strcmp(cause, "leak") == 0) leak();
    else if (strcmp(cause, "large") == 0) large();
    else if (strcmp(cause, "cached") == 0) cached();
    else if (strcmp(cause, "resized") == 0) resized(count > 3 ? arguments[3] : "");
    else if (strcmp(cause, "busy") == 0) busy(threads);
    else if (strcmp(cause, "scattered") == 0) scattered();
    else if (strcmp(cause, "turns") == 0) turns(threads);
    else if (strcmp(cause, "drift") == 0) drift();
    else if (strcmp(cause, "huge") == 0) huge(count > 3 ? arguments[3] : "");
    else if (strcmp(cause, "file") == 0) file(count > 3 ? arguments[3] : "file");
    else return 2;
    say();
    for (int signal; sigwait(&asked, &signal) == 0;) {
        if (signal == SIGUSR1) malloc_trim(0);
        say();
    }
}
