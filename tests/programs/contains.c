/* Runs a program in another root directory, as containers do, in a mount namespace of its own: by chroot or by pivot_root. In it is
   /libramson.so, which is preloaded. Arguments: how, root directory, program. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(int result, const char *what) {
    if (result == 0) return;
    perror(what);
    exit(1);
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    must(unshare(CLONE_NEWNS), "unshare");
    must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
    must(mount(arguments[2], arguments[2], NULL, MS_BIND, NULL), "bind");
    must(chdir(arguments[2]), "chdir");
    must(mount("proc", "proc", "proc", 0, NULL), "proc");
    if (strcmp(arguments[1], "chroot") == 0) {
        must(chroot("."), "chroot");
    } else {
        must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
        must(umount2(".", MNT_DETACH), "umount");
    }
    setenv("LD_PRELOAD", "/libramson.so", 1);
    must(execl(arguments[3], arguments[3], NULL), arguments[3]);
}
