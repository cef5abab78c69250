// A process of user USER whose memory is behind a file system that never says what is in its file: mute HOW DIRECTORY LIBRARY USER. To be started as root, and to
// be ended with SIGKILL: then all who wait for the file go on.
//
// profile: the file is mapped as a profile is.   maps: besides, one thread waits for it and keeps the process's maps from being changed, another waits to
// change them, and everyone else for that one.   reads: the only thread waits for it, where it would be borrowed for a trim.
// From the next ones on, the file system answers nothing any more once the file was opened: who looks at it waits, and no signal ends that.
// opens: every user may enter it.   runs: besides, the process runs the file, under LIBRARY.   ends: the same, from when the process was killed on.   overlays: no other user may enter it, but it is below the
// overlay in a user namespace that is the root directory of the process, which runs under LIBRARY.
// closes: every user may enter it, and the process runs the file; the file system answers always, but to nobody who closes the file.   covers: the same, no
// other user may enter it, and the process runs the file from an overlay above it, in a user namespace.
// drips: mute HOW DIRECTORY LIBRARY USER PROFILE; the file is PROFILE, which is the process's by its header, and is mapped as one; the file system answers, a
// page after the other and each after DRIP_MS.
// claims: every user may enter it, and the process runs the file, which is root's by what the file system says, but which root cannot read.
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

enum { FILE_NODE = 2, LONG = 1 << 20, PAGE = 4096, DRIP_MS = 10 };
// Places in the header of a profile (FORMAT.md).
enum { STATE_AT = 12, PID_AT = 20, START_TICKS_AT = 48, RECORDING = 1 };
static size_t file_bytes = 8 << 20;
static int user, owner, answers_flush = 1, program = -1, drips;

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
    struct fuse_attr found = {.ino = node, .nlink = 1, .uid = owner, .gid = owner, .blksize = PAGE};
    found.mode = node == FILE_NODE ? S_IFREG | 0777 : S_IFDIR | 0777;
    found.size = node == FILE_NODE ? file_bytes : PAGE;
    return found;
}

static void say_ready(pid_t process) {
    char ready[32];
    int bytes = snprintf(ready, sizeof ready, "ready %d\n", process);
    check(write(1, ready, bytes) == bytes, "ready");
}

// Answers everything, reads only of a program, until the file was opened so many times, or process `last` has closed it; 0: for ever.
static void serve(int device, int last_open, pid_t last) {
    int opens = 0, closes = 0;
    unsigned long valid = last_open || last ? 0 : 3600;
    static char request[LONG + PAGE], content[LONG];
    for (;;) {
        ssize_t bytes = read(device, request, sizeof request);
        if (bytes < 0 && (errno == EINTR || errno == ENOENT)) continue;
        check(bytes > 0, "request");
        struct fuse_in_header *head = (void *)request;
        struct fuse_init_out begun = {.major = 7, .minor = 31, .max_write = PAGE, .max_readahead = PAGE};
        struct fuse_entry_out entry = {.nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = valid, .attr = attributes(FILE_NODE)};
        struct fuse_attr_out facts = {.attr_valid = valid, .attr = attributes(head->nodeid)};
        struct fuse_statfs_out whole = {.st = {.namelen = 255, .bsize = PAGE}};
        // Who may read is asked each time where root may not.
        struct fuse_open_out opened = {.fh = 1, .open_flags = owner ? FOPEN_KEEP_CACHE : 0};
        struct fuse_read_in *wanted = (void *)(head + 1);
        if ((last_open && opens == last_open) || (last && opens && closes == opens)) continue;
        opens += head->opcode == FUSE_OPEN;
        switch (head->opcode) {
        case FUSE_INIT: reply(device, head, &begun, sizeof begun, 0); break;
        case FUSE_LOOKUP: reply(device, head, &entry, sizeof entry, 0); break;
        case FUSE_GETATTR: reply(device, head, &facts, sizeof facts, 0); break;
        case FUSE_STATFS: reply(device, head, &whole, sizeof whole, 0); break;
        case FUSE_OPEN: reply(device, head, &opened, sizeof opened, 0); break;
        case FUSE_RELEASE:
            reply(device, head, NULL, 0, 0);
            if (++closes == opens && last) say_ready(last);
            break;
        case FUSE_READ:
            if (program < 0) break;
            if (owner == 0 && head->uid == 0) {
                reply(device, head, NULL, 0, -EIO);
                break;
            }
            if (drips) usleep(DRIP_MS * 1000);
            bytes = pread(program, content, wanted->size < LONG ? wanted->size : LONG, wanted->offset);
            check(bytes >= 0, "program");
            reply(device, head, content, bytes, 0);
            break;
        case FUSE_FLUSH:
            if (answers_flush) reply(device, head, NULL, 0, -ENOSYS);
            break;
        case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
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

// Puts an overlay above the current directory: what is in it is read with the rights of this user, who may enter the file system.
static void mount_overlay(void) {
    char map[32], directory[PAGE], options[PAGE + 32];
    int bytes = snprintf(map, sizeof map, "%d %d 1", user, user);
    check(getcwd(directory, sizeof directory) != NULL, "directory");
    check(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "user namespace");
    int file = open("/proc/self/uid_map", O_WRONLY);
    check(file >= 0 && write(file, map, bytes) == bytes, "uid_map");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Without an upper directory there have to be two.
    snprintf(options, sizeof options, "lowerdir=%s:/usr", directory);
    check(mount("overlay", directory, "overlay", 0, options) == 0, "overlay");
    check(chdir(directory) == 0, "directory");
}

extern char __executable_start, end;

// Runs the process that has a profile.
static void live(const char *how) {
    prctl(PR_SET_NAME, "mute");
    static void *blocks[1000];
    for (int i = 0; i < 1000; i++) memset(blocks[i] = malloc(10000), 1, 10000);
    if (strcmp(how, "ends") == 0) raise(SIGKILL);
    if (strcmp(how, "overlays") == 0) {
        mount_overlay();
        check(chroot(".") == 0, "chroot");
    }
    // Locks the code in memory, so that the process goes on without its file.
    check(mlock(&__executable_start, &end - &__executable_start) == 0, "mlock");
    check(open("file", O_RDONLY) >= 0, "file");
    say_ready(getpid());
    for (;;) pause();
}

// Makes the profile that of this process.
static void take_profile(void) {
    char line[1024];
    int stat = open("/proc/self/stat", O_RDONLY);
    ssize_t bytes = read(stat, line, sizeof line - 1);
    check(bytes > 0, "stat");
    line[bytes] = 0;
    char *field = strrchr(line, ')');
    // The name is the second field, the start the twenty-second.
    for (int number = 2; number < 22; number++) field = strchr(field + 1, ' ');
    unsigned long long start = strtoull(field, NULL, 10);
    unsigned state = RECORDING, pid = getpid();
    check(pwrite(program, &state, 4, STATE_AT) == 4 && pwrite(program, &pid, 4, PID_AT) == 4, "profile");
    check(pwrite(program, &start, 8, START_TICKS_AT) == 8, "profile");
}

static void harm(const char *how, const char *library) {
    if (drips) take_profile();
    int file = open("file", O_RDWR), code = open(library, O_RDONLY);
    check(file >= 0, "file");
    // As code: of other private mappings no names are looked up.
    check(code >= 0 && mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, code, 0) != MAP_FAILED, library);
    char *at = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
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
    say_ready(getpid());
    if (strcmp(how, "reads") == 0) {
        // Gives malloc free memory, so that there is something to trim.
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
    user = owner = count >= 5 ? atoi(words[4]) : (int)getuid();
    if (count == 2) live(words[1]);
    const char *how = words[1];
    drips = strcmp(how, "drips") == 0;
    check(count == 5 + drips, "mute HOW DIRECTORY LIBRARY USER");
    int overlays = strcmp(how, "overlays") == 0, opens = strcmp(how, "opens") == 0, ends = strcmp(how, "ends") == 0;
    int claims = strcmp(how, "claims") == 0, covers = strcmp(how, "covers") == 0, closes = strcmp(how, "closes") == 0 || covers;
    int runs = strcmp(how, "runs") == 0 || ends || claims || closes;
    if (claims) owner = 0;
    answers_flush = !closes;
    int device = open("/dev/fuse", O_RDWR);
    check(device >= 0, "/dev/fuse");
    if (runs) program = open("/proc/self/exe", O_RDONLY);
    if (drips) program = open(words[5], O_RDWR);
    if (program >= 0) file_bytes = lseek(program, 0, SEEK_END);
    // Ends this process after 300 s, so that nothing waits for it longer, whatever becomes of the test.
    alarm(300);
    check(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "namespace");
    char options[96];
    const char *others = opens || (runs && !covers) ? ",allow_other" : "";
    snprintf(options, sizeof options, "fd=%d,rootmode=40777,user_id=%d,group_id=%d%s", device, user, user, others);
    check(mount("mute", words[2], "fuse", MS_NOSUID | MS_NODEV, options) == 0, "mount");
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(device);
        check(setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "user");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_DUMPABLE, 1);
        check(chdir(words[2]) == 0, words[2]);
        if (covers) mount_overlay();
        if (runs || overlays) {
            check(setenv("LD_PRELOAD", words[3], 1) == 0, "environment");
            execl(runs ? "./file" : "/proc/self/exe", "mute", how, NULL);
            check(0, "exec");
        }
        harm(how, words[3]);
    }
    // To be run, it is opened, too.
    serve(device, ends || claims || closes ? 0 : runs ? 2 : opens || overlays, ends ? process : 0);
}
