// A process whose mapped files, arguments and variables are there to harm who looks at it: stranger HOW DIRECTORY [ARGUMENT].
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Lower than any library: the first of its name that is found.
static char *const LOWEST = (char *)0x10000000;
#define NAMED "libc.so.6"

static void check(int is_good, const char *what) {
    if (is_good) return;
    perror(what);
    exit(3);
}

static void map_first(int file) {
    void *mapped = mmap(LOWEST, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0);
    check(mapped == LOWEST, "mmap");
}

// A file of 5 GiB that takes no space.
static void sparse(void) {
    int file = open(NAMED, O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(file >= 0 && ftruncate(file, 5l << 30) == 0, NAMED);
    map_first(file);
}

// The variables of a library and of a loader of 64 MiB, a hundred times.
static void copies(void) {
    const char *const all[] = {NAMED, "ld-linux-x86-64.so.2"};
    size_t bytes = 64 << 20;
    for (int which = 0; which < 2; which++) {
        int file = open(all[which], O_RDWR | O_CREAT | O_TRUNC, 0644);
        check(file >= 0 && ftruncate(file, bytes) == 0, all[which]);
        // The text that tells its version.
        static const char banner[] = "GNU C Library (Strange) stable release version 2.36.\n";
        check(pwrite(file, banner, sizeof banner, 0) == sizeof banner, "banner");
        for (int i = 0; i < 100; i++) {
            void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
            check(mapped != MAP_FAILED, "copies");
        }
    }
}

static void write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    check(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(file);
}

// Becomes root of a user namespace, whose mounts are its own.
static void enter_namespace(void) {
    char map[64];
    uid_t user = getuid();
    gid_t group = getgid();
    check(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare");
    snprintf(map, sizeof map, "0 %u 1", user);
    write_to("/proc/self/uid_map", map);
    write_to("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", group);
    write_to("/proc/self/gid_map", map);
}

// Maps a file that has, of all names, the inode number that will be another's of that name: two file systems count alike.
static void map_and_cover(const char *directory, ino_t inode) {
    enter_namespace();
    check(mount("none", directory, "tmpfs", 0, NULL) == 0 && chdir(directory) == 0, "tmpfs");
    struct stat facts;
    for (int tries = 0; tries < 100; tries++) {
        unlink(NAMED);
        int file = open(NAMED, O_RDWR | O_CREAT | O_TRUNC, 0644);
        check(file >= 0 && ftruncate(file, 4096) == 0 && fstat(file, &facts) == 0, NAMED);
        if (inode == 0 || facts.st_ino == inode) return map_first(file);
        // This file keeps its number, so that the next file gets another one.
        char kept[32];
        snprintf(kept, sizeof kept, "kept-%d", tries);
        check(rename(NAMED, kept) == 0, kept);
    }
    exit(4);
}

// Has, as the first process of its own namespace, a file mapped that has the number of another's profile.
static void poses(const char *directory, ino_t inode) {
    map_and_cover(directory, inode);
    int file = open(NAMED, O_RDWR);
    check(file >= 0 && ftruncate(file, 4 << 20) == 0, NAMED);
    check(mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED, "mmap");
    check(unshare(CLONE_NEWPID) == 0, "unshare");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) return;
    prctl(PR_SET_NAME, "outside");
    waitpid(child, NULL, 0);
    exit(0);
}

static void fifo(const char *directory) {
    map_and_cover(directory, 0);
    check(mount("none", directory, "tmpfs", 0, NULL) == 0 && chdir(directory) == 0, "tmpfs");
    check(mkfifo(NAMED, 0644) == 0, "mkfifo");
}

static void zero(const char *directory) {
    struct stat facts;
    check(stat("/dev/zero", &facts) == 0, "/dev/zero");
    map_and_cover(directory, facts.st_ino);
    check(mount("none", directory, "tmpfs", 0, NULL) == 0 && chdir(directory) == 0, "tmpfs");
    check(symlink("/dev/zero", NAMED) == 0, "symlink");
}

// Arguments and variables that go on for 1 TiB.
static void endless(void) {
    size_t bytes = 1ul << 40;
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(start != MAP_FAILED, "mmap");
    memcpy(start, "stranger", 9);
    unsigned long code = (unsigned long)check & ~4095ul, stack = (unsigned long)&bytes;
    struct prctl_mm_map map = {
        .start_code = code, .end_code = code + 1, .start_data = code, .end_data = code + 1,
        .start_brk = (unsigned long)sbrk(0) & ~4095ul, .brk = (unsigned long)sbrk(0), .start_stack = stack,
        .arg_start = (unsigned long)start, .arg_end = (unsigned long)start + bytes,
        .env_start = (unsigned long)start, .env_end = (unsigned long)start + bytes, .exe_fd = -1,
    };
    check(prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0, "PR_SET_MM_MAP");
}

// Goes down into directories whose path takes as long to tell as one may.
static void enter_deep(void) {
    char name[200];
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = 0;
    // The kernel shows the whole path; each path that is passed to it is short.
    for (int depth = 0; depth < 18; depth++) check(mkdir(name, 0755) == 0 && chdir(name) == 0, "mkdir");
}

// Makes `count` mappings, each of a file of its own whose path is as long as a path may be.
static void many(int count) {
    enter_deep();
    for (int i = 0; i < count; i++) {
        char file_name[64];
        snprintf(file_name, sizeof file_name, "%040d", i);
        int file = open(file_name, O_RDWR | O_CREAT, 0644);
        // Two that touch and are of different files stay two.
        int is_good = file >= 0 && ftruncate(file, 4096) == 0;
        void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
        check(is_good && mapped != MAP_FAILED, "many");
        close(file);
    }
}

// Mounts upon mounts, whose paths are as long as a path may be.
static void mounts(const char *directory) {
    enter_namespace();
    check(mount("none", directory, "tmpfs", 0, NULL) == 0 && chdir(directory) == 0, "tmpfs");
    enter_deep();
    check(mkdir("at", 0755) == 0, "at");
    for (int i = 0; i < 10000; i++) check(mount("at", "at", NULL, MS_BIND, NULL) == 0, "bind");
}

// Makes `count` areas of anonymous memory, of which every 16th page is there.
static void areas(int count) {
    char *start = mmap(NULL, count * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(start != MAP_FAILED, "areas");
    for (int i = 0; i < count; i++) {
        if (i % 16 == 0) start[i * 4096ul] = 1;
        if (i % 2 == 1) check(mprotect(start + i * 4096ul, 4096, PROT_READ) == 0, "mprotect");
    }
}

// An arena whose heap has itself before it, without an end, and areas of 1 TiB that begin as large blocks of malloc's do.
static void *other_arena(void *unused) {
    char *volatile block = malloc(1000);
    void **heap = (void **)((unsigned long)block & ~((64ul << 20) - 1));
    heap[1] = heap;
    for (int i = 0; i < 60; i++) {
        unsigned long bytes = 1ul << 40;
        unsigned long *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (area == MAP_FAILED) break;
        area[1] = bytes | 2;
        // Apart from the next one.
        mprotect((char *)area + bytes - 4096, 4096, PROT_NONE);
    }
    for (;;) pause();
    return unused;
}

static void heaps(void) {
    pthread_t thread;
    check(pthread_create(&thread, NULL, other_arena, NULL) == 0, "thread");
    usleep(300000);
}

// Makes memory that looks like a profile (format/FORMAT.md) with the header of another, whose nine regions of 4 GiB are one and the same, and
// a mapping of the library.
static void profile(const char *library, const char *header_of) {
    int file = open(library, O_RDONLY);
    check(file >= 0 && mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0) != MAP_FAILED, library);
    unsigned *header = mmap(NULL, 5ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    file = open(header_of, O_RDONLY);
    check(header != MAP_FAILED && file >= 0 && read(file, header, 4096) == 4096, header_of);
    header[5] = getpid();
    for (int i = 0; i < 9; i++) {
        unsigned long *row = (unsigned long *)header + 16 + 4 * i;
        unsigned entry_bytes = row[3];
        row[0] = 4096;
        row[1] = row[2] = (4ul << 30) / (entry_bytes ? entry_bytes : 1) - 100;
    }
}

// Has another's file mapped as its profile, in a root directory of its own.
static void chrooted(const char *library, const char *file_name) {
    int code = open(library, O_RDONLY), file = open(file_name, O_RDWR);
    check(code >= 0 && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, code, 0) != MAP_FAILED, library);
    unsigned *header = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(file >= 0 && header != MAP_FAILED, file_name);
    header[5] = getpid();
    check(unshare(CLONE_NEWUSER) == 0 && chroot(".") == 0, "chroot");
}

// Names that end lines, move the cursor, and are another's.
static void names(const char *other) {
    const char *const all[] = {"a\nb-c rw-s 00000000 00:00 0", "\x1b[2J\x1b]0;x\a", "libramson.so", "libc.so.6 (deleted)", "7f-8f rw-p 0 0:0 0 x",
                               "\xff\xfe\xe2\x80\xae", "[heap]", "[stack]", "1-2.ramson", "libjemalloc.so.2"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int file = open(all[i], O_RDWR | O_CREAT, 0644);
        check(file >= 0 && ftruncate(file, 1 << 20) == 0, all[i]);
        check(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED, all[i]);
        close(file);
    }
    prctl(PR_SET_NAME, other);
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    const char *how = arguments[1], *directory = arguments[2];
    check(chdir(directory) == 0, directory);
    if (strcmp(how, "sparse") == 0) sparse();
    if (strcmp(how, "copies") == 0) copies();
    if (strcmp(how, "fifo") == 0) fifo(directory);
    if (strcmp(how, "zero") == 0) zero(directory);
    if (strcmp(how, "poses") == 0) poses(directory, atol(arguments[3]));
    if (strcmp(how, "many") == 0) many(atoi(arguments[3]));
    if (strcmp(how, "mounts") == 0) mounts(directory);
    if (strcmp(how, "areas") == 0) areas(atoi(arguments[3]));
    if (strcmp(how, "heaps") == 0) heaps();
    if (strcmp(how, "profile") == 0) profile(arguments[3], arguments[4]);
    if (strcmp(how, "chrooted") == 0) chrooted(arguments[3], arguments[4]);
    if (strcmp(how, "names") == 0) names(arguments[3]);
    // Gives malloc free memory, so that there is something to look at.
    void *volatile blocks[1000];
    for (int i = 0; i < 1000; i++) memset(blocks[i] = malloc(10000), 1, 10000);
    for (int i = 0; i < 999; i++) free(blocks[i]);
    if (strcmp(how, "endless") == 0) endless();
    if (write(1, "ready 0\n", 8) != 8) return 5;
    for (;;) pause();
}
