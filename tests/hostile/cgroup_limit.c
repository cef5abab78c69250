/* A memory cgroup at its limit: full of page cache while the program allocates, then too small for what it wants, where the
   kernel kills it and its parent goes on.
   needs: root */
#include "hostile.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char group[4096];

static void put(const char *name, const char *value) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", group, name);
    int file = open(path, O_WRONLY);
    CHECK(file >= 0 && write(file, value, strlen(value)) == (ssize_t)strlen(value) && close(file) == 0);
}

/* A new group of at most 48 MiB in whichever hierarchy has the memory controller. */
static void make_group(void) {
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mkdir("cgroups", 0700) == 0);
    int is_v1 = mount("cgroup", "cgroups", "cgroup", 0, "memory") == 0;
    CHECK(is_v1 || mount("cgroup2", "cgroups", "cgroup2", 0, NULL) == 0);
    snprintf(group, sizeof group, "cgroups/hostile-%d", getpid());
    CHECK(mkdir(group, 0700) == 0);
    put(is_v1 ? "memory.limit_in_bytes" : "memory.max", "48M");
}

static void fill_cache(void) {
    static char block[1 << 20];
    int file = open("cached", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 100; i++) CHECK(write(file, block, sizeof block) == sizeof block);
    close(file);
    unlink("cached");
}

static void live_within(void) {
    void *blocks[16];
    fill_cache();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 16; i++) blocks[i] = used(1 << 20);
        churn(3000);
        for (int i = 0; i < 16; i++) free(blocks[i]);
    }
    exit(0);
}

static void want_too_much(void) {
    for (int i = 0; i < 300; i++) used(1 << 20);
    exit(0);
}

int main(void) {
    void (*children[])(void) = {live_within, want_too_much};
    make_group();
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            put("cgroup.procs", "0");
            children[i]();
        }
        printf("%d\n", status_of(child));
        fflush(stdout);
    }
    /* The kernel may still be taking the last process apart. */
    while (rmdir(group) != 0) CHECK(errno == EBUSY);
    return 0;
}
