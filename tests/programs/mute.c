// A process of user 1501 whose memory is behind a file system that never says what is in its file: mute HOW DIRECTORY LIBRARY. To be started as root, and to
// be ended with SIGKILL: then all who wait for the file go on.
//
// profile: the file is mapped as a profile is.   maps: besides, one thread waits for it and keeps the process's maps from being changed, another waits to
// change them, and everyone else for that one.   reads: the only thread waits for it, where it would be borrowed for a trim.
// opens: every user may enter the file system, which answers nothing any more once it was opened: who looks at the file waits, and no signal ends that.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { USER = 1501, FILE_NODE = 2, LONG = 1 << 20, PAGE = 4096 };
static const size_t FILE_BYTES = 8 << 20;

static void check(int is_good, const char *what) {
    if (is_good) return;
    perror(what);
    exit(3);
}

static void reply(int device, const struct fuse_in_header *request, const void *body, size_t bytes, int error) {
    struct fuse_out_header head = {.len = sizeof head + bytes, .error = error, .unique = request->unique};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)body, bytes}};
    // Who asked may be gone.
    if (writev(device, parts, 2) < 0 && errno != ENOENT) check(0, "reply");
}

static struct fuse_attr attributes(unsigned long node) {
    struct fuse_attr found = {.ino = node, .nlink = 1, .uid = USER, .gid = USER, .blksize = PAGE};
    found.mode = node == FILE_NODE ? S_IFREG | 0666 : S_IFDIR | 0777;
    found.size = node == FILE_NODE ? FILE_BYTES : PAGE;
    return found;
}

// Answers everything except reads; or, what concerns the file, nothing after an open.
static void serve(int device, int ends_at_open) {
    int is_open = 0;
    unsigned long valid = ends_at_open ? 0 : 3600;
    static char request[LONG + PAGE];
    for (;;) {
        ssize_t bytes = read(device, request, sizeof request);
        if (bytes < 0 && (errno == EINTR || errno == ENOENT)) continue;
        check(bytes > 0, "request");
        struct fuse_in_header *head = (void *)request;
        struct fuse_init_out begun = {.major = 7, .minor = 31, .max_write = PAGE, .max_readahead = PAGE};
        struct fuse_entry_out entry = {.nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = valid, .attr = attributes(FILE_NODE)};
        struct fuse_attr_out facts = {.attr_valid = valid, .attr = attributes(head->nodeid)};
        struct fuse_open_out opened = {.fh = 1};
        if (is_open && ends_at_open && head->nodeid == FILE_NODE) continue;
        is_open |= head->opcode == FUSE_OPEN;
        switch (head->opcode) {
        case FUSE_INIT: reply(device, head, &begun, sizeof begun, 0); break;
        case FUSE_LOOKUP: reply(device, head, &entry, sizeof entry, 0); break;
        case FUSE_GETATTR: reply(device, head, &facts, sizeof facts, 0); break;
        case FUSE_OPEN: reply(device, head, &opened, sizeof opened, 0); break;
        case FUSE_READ: case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
        default: reply(device, head, NULL, 0, -ENOSYS);
        }
    }
}

static volatile pid_t waits;
static volatile int may_change;

static void *reads_own(void *at) {
    char byte;
    int memory = open("/proc/self/mem", O_RDONLY);
    check(memory >= 0, "mem");
    waits = gettid();
    // Ends when the file system does.
    return (void *)pread(memory, &byte, 1, (off_t)at);
}

static void *changes_maps(void *unused) {
    (void)unused;
    while (!may_change) sched_yield();
    waits = gettid();
    return mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Until that thread waits in the kernel.
static void until_it_waits(void) {
    char path[64], line[256] = "";
    while (strstr(line, ") D ") == NULL && strstr(line, ") S ") == NULL) {
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", waits);
        int file = open(path, O_RDONLY);
        ssize_t bytes = file < 0 ? 0 : read(file, line, sizeof line - 1);
        line[bytes < 0 ? 0 : bytes] = 0;
        close(file);
        usleep(1000);
    }
    waits = 0;
}

static void harm(const char *how, const char *library) {
    int file = open("file", O_RDWR), code = open(library, O_RDONLY);
    check(file >= 0, "file");
    // As code: of other private mappings no names are looked up.
    check(code >= 0 && mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, code, 0) != MAP_FAILED, library);
    char *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(at != MAP_FAILED, "mmap");
    if (strcmp(how, "maps") == 0) {
        pthread_t thread;
        // Both before the maps cannot be changed any more.
        check(pthread_create(&thread, NULL, changes_maps, NULL) == 0, "thread");
        check(pthread_create(&thread, NULL, reads_own, at) == 0, "thread");
        until_it_waits();
        may_change = 1;
        until_it_waits();
    }
    char ready[32];
    int bytes = snprintf(ready, sizeof ready, "ready %d\n", getpid());
    check(write(1, ready, bytes) == bytes, "ready");
    if (strcmp(how, "reads") == 0) {
        // What malloc has, so that there is something to trim.
        void *volatile blocks[1000];
        for (int i = 0; i < 1000; i++) memset(blocks[i] = malloc(10000), 1, 10000);
        for (int i = 0; i < 999; i++) free(blocks[i]);
        char byte;
        // Ends when the file system does.
        check(read(file, &byte, 1) < 0, "read");
    }
    for (;;) pause();
}

int main(int count, char **words) {
    check(count == 4, "mute HOW DIRECTORY LIBRARY");
    int device = open("/dev/fuse", O_RDWR);
    check(device >= 0, "/dev/fuse");
    // What waits for it does so no longer than this, whatever becomes of the test.
    alarm(120);
    check(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "namespace");
    char options[96];
    int opens = strcmp(words[1], "opens") == 0;
    const char *others = opens ? ",allow_other" : "";
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d%s", device, USER, USER, others);
    check(mount("mute", words[2], "fuse", MS_NOSUID | MS_NODEV, options) == 0, "mount");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(device);
        check(setgroups(0, NULL) == 0 && setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0, "user");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_DUMPABLE, 1);
        check(chdir(words[2]) == 0, words[2]);
        harm(words[1], words[3]);
    }
    serve(device, opens);
}
