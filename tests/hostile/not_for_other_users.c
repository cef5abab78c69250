/* A program with the set-user-ID bit, or with file capabilities, executed by somebody else: the loader drops LD_PRELOAD, or, where
   the system's administrator preloads ramson for everybody (/etc/ld.so.preload), ramson is there and stays off; in silence.
   needs: root
   ramson: any */
#include "hostile.h"
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

static char directory[4096];

static void copy_self(const char *name) {
    char block[65536];
    ssize_t length;
    int from = open("/proc/self/exe", O_RDONLY), to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    while ((length = read(from, block, sizeof block)) > 0) CHECK(write(to, block, length) == length);
    CHECK(fchmod(to, 0755) == 0 && close(from) == 0 && close(to) == 0);
}

static int profiles(void) {
    int count = 0;
    DIR *files = opendir(directory);
    for (struct dirent *entry; files && (entry = readdir(files));) count += entry->d_name[0] != '.';
    if (files) closedir(files);
    return count;
}

static void run(const char *name, int is_secure) {
    int before = profiles();
    pid_t child = fork();
    if (child == 0) {
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        execl(name, name, is_secure ? "secure" : "usual", NULL);
        _exit(96);
    }
    int status = status_of(child);
    CHECK(is_secure || !everything_is_sampled() || profiles() != before);
    /* Not even a file that is removed again: its directory would be there, or another count. */
    printf("%s: %d, %s\n", name, status, is_secure && profiles() != before ? "recorded" : "as it should be");
    fflush(stdout);
}

int main(int count, char **arguments) {
    if (count > 1) {
        CHECK(!getauxval(AT_SECURE) == !!strcmp(arguments[1], "secure"));
        take_a_certain_sample();
        churn(1000);
        return geteuid() == 0 ? 8 : 7;
    }
    /* Open to the other user, and everything in a tmpfs that allows the bit. */
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("tmpfs", "/mnt", "tmpfs", 0, "size=10m,mode=0755") == 0 && chdir("/mnt") == 0);
    CHECK(mkdir("profiles", 0777) == 0 && chmod("profiles", 0777) == 0);
    strcpy(directory, "/mnt/profiles");
    setenv("RAMSON_DIR", directory, 1);
    copy_self("./usual");
    copy_self("./set-user-id");
    CHECK(chmod("./set-user-id", 04755) == 0);
    copy_self("./capable");
    struct vfs_cap_data raw_sockets = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, {{1 << CAP_NET_RAW, 0}}};
    CHECK(setxattr("./capable", "security.capability", &raw_sockets, sizeof raw_sockets, 0) == 0);
    for (int is_preloaded_by_the_system = 0; is_preloaded_by_the_system < 2; is_preloaded_by_the_system++) {
        if (is_preloaded_by_the_system) {
            const char *preload = getenv("LD_PRELOAD");
            /* Another /etc, for this process and its children. */
            CHECK(mount("tmpfs", "/etc", "tmpfs", 0, "mode=0755") == 0);
            int list = open("/etc/ld.so.preload", O_WRONLY | O_CREAT, 0644);
            if (preload) CHECK(write(list, preload, strlen(preload)) > 0);
            CHECK(close(list) == 0);
            unsetenv("LD_PRELOAD");
        }
        run("./usual", 0);
        run("./set-user-id", 1);
        run("./capable", 1);
    }
    return 0;
}
