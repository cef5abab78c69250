/* Somebody cuts the profile while the program runs, to nothing, to a half, or to nothing and back to its length: a mapped page without a
   file behind it is SIGBUS when it is touched. Whatever the program does next must not be the first to find out.
   ramson: any
   representative */
#include "hostile.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { NOTHING, HALF, NOTHING_AND_BACK, CUTS };

static const char *directory;
static char *volatile kept, *volatile mapped;

/* Not the parent's, which may be attached to or detached from at this moment: as long as that takes, a cut kills. */
static void cut_own(int cut) {
    DIR *files = opendir(directory);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        if (atoi(entry->d_name) != getpid()) continue;
        CHECK(fchmodat(dirfd(files), entry->d_name, 0600, 0) == 0);
        int file = openat(dirfd(files), entry->d_name, O_WRONLY);
        struct stat is;
        if (file >= 0 && fstat(file, &is) == 0 && S_ISREG(is.st_mode)) {
            CHECK(ftruncate(file, cut == HALF ? is.st_size / 2 : 0) == 0);
            if (cut == NOTHING_AND_BACK) CHECK(ftruncate(file, is.st_size) == 0);
        }
        if (file >= 0) close(file);
    }
    /* ramson looks at its file every 0.1 ms or so at most, and closedir frees. */
    usleep(2000);
    if (files) closedir(files);
}

static void remove_all(void) {
    DIR *files = opendir(directory);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        if (entry->d_name[0] != '.') unlinkat(dirfd(files), entry->d_name, 0);
    }
    if (files) closedir(files);
}

static void *sample_in_thread(void *unused) {
    take_a_certain_sample();
    return unused;
}

static void allocates(void) { take_a_certain_sample(); }
static void frees(void) { free(kept); }
static void reallocates(void) { CHECK((kept = realloc(kept, 96 << 20))); }
static void fails(void) {
    void *volatile none = malloc((size_t)1 << 48);
    CHECK(none == NULL);
}
static void maps(void) { CHECK(mmap(NULL, 8 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED); }
static void unmaps(void) { CHECK(munmap(mapped, 4 << 20) == 0); }
static void remaps(void) { CHECK(mremap(mapped, 8 << 20, 16 << 20, MREMAP_MAYMOVE) != MAP_FAILED); }
static void starts_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sample_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
static void forks(void) {
    pid_t child = fork();
    if (child == 0) {
        take_a_certain_sample();
        exit(5);
    }
    CHECK(status_of(child) == 5);
}
static void exits(void) { exit(3); }

static void (*const next[])(void) = {allocates, frees, reallocates, fails, maps, unmaps, remaps, starts_a_thread, forks, exits};

int main(void) {
    directory = getenv("RAMSON_DIR");
    CHECK(directory != NULL);
    for (size_t i = 0; i < CUTS * sizeof next / sizeof *next; i++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK((kept = malloc(64 << 20)));
            *kept = 1;
            mapped = mmap(NULL, 8 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(mapped != MAP_FAILED);
            cut_own(i % CUTS);
            next[i / CUTS]();
            take_a_certain_sample();
            churn(1000);
            exit(3);
        }
        printf("child: %d\n", status_of(child));
        remove_all();
    }
    return 0;
}
