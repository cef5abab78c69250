/* unshare of user, process-id and mount namespaces: the child is process 1 of its own, sees another user, no old /proc.
   needs: root */
#include "hostile.h"
#include <sched.h>
#include <sys/mount.h>

static void in_child(const char *name, int flags) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(unshare(flags) == 0);
        churn(200);
        pid_t inner = fork();
        if (inner == 0) {
            churn(200);
            if (flags & CLONE_NEWPID) CHECK(getpid() == 1);
            if (flags & CLONE_NEWNS) {
                CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
                CHECK(mount("tmpfs", "/proc", "tmpfs", 0, NULL) == 0);
                churn(200);
                CHECK(access("/proc/self", F_OK) != 0);
            }
            exit(5);
        }
        exit(status_of(inner));
    }
    printf("%s %d\n", name, status_of(child));
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    churn(100);
    in_child("user", CLONE_NEWUSER);
    in_child("processes", CLONE_NEWPID);
    in_child("mounts", CLONE_NEWNS);
    in_child("all of them", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
    return 0;
}
