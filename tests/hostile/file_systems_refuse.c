/* Directories of profiles, in a mount namespace of its own: a read-only root; a file system full from the start, one that is full
   soon, one that is filled, remounted read-only or unmounted while the program runs; never a signal.
   needs: root */
#include "hostile.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static const char *directory;

static void put(const char *size) {
    mkdir(directory, 0700);
    CHECK(mount("tmpfs", directory, "tmpfs", 0, size) == 0);
}

static void fill(void) {
    char path[5000], block[65536] = {1};
    snprintf(path, sizeof path, "%s/filler", directory);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    while (write(file, block, sizeof block) > 0) {}
    close(file);
}

static void read_only_root(void) {
    CHECK(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
    CHECK(open("written", O_RDWR | O_CREAT, 0600) == -1 && errno == EROFS);
}
static void full(void) { put("size=4k"); }
static void tiny(void) { put("size=64k"); }
static void small(void) { put("size=2m"); }
static void no_inodes(void) { put("nr_inodes=1"); }
static void large(void) { put("size=100m"); }
static void remount(void) { mount(NULL, directory, NULL, MS_REMOUNT | MS_RDONLY, NULL); }
static void unmount(void) { umount2(directory, MNT_DETACH); }
static void nothing(void) {}

/* Live samples of ever new sizes and blocks: everything that ramson keeps grows. */
static void *grow(int depth, int count) {
    void *volatile block = NULL;
    if (depth > 0) return grow(depth - 1, count);
    for (int i = 0; i < count; i++) CHECK((block = malloc(100)) != NULL);
    return block;
}

static void try(const char *name, void (*before)(void), void (*between)(void)) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        before();
        take_a_certain_sample();
        grow(3, 3000);
        between();
        for (int depth = 0; depth < 50; depth++) grow(depth, 1000);
        take_a_certain_sample();
        exit(0);
    }
    printf("%s: %d\n", name, status_of(child));
    fflush(stdout);
}

int main(void) {
    directory = getenv("RAMSON_DIR");
    CHECK(directory != NULL);
    try("read-only root", read_only_root, nothing);
    try("full", full, nothing);
    try("tiny", tiny, nothing);
    try("small", small, nothing);
    try("no inodes", no_inodes, nothing);
    try("filled", large, fill);
    try("remounted", large, remount);
    try("unmounted", large, unmount);
    rmdir(directory);
    return 0;
}
