/* After its start the program gives up root, its capabilities and its view of the file system: setresuid, setgid, chroot into
   an empty directory, in every order, with samples before, between and after.
   needs: root */
#include "hostile.h"
#include <grp.h>
#include <sys/stat.h>

static int try(int is_sampled_before, int changes_root, int changes_user) {
    pid_t child = fork();
    if (child != 0) return status_of(child);
    if (is_sampled_before) take_a_certain_sample();
    if (changes_root) CHECK(chroot("empty") == 0 && chdir("/") == 0);
    if (changes_user) {
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        CHECK(setuid(0) == -1);
    }
    take_a_certain_sample();
    churn(1000);
    /* Nothing of ours may appear where the program now lives. */
    if (changes_root) CHECK(rmdir("/var") == -1 && access("/tmp", F_OK) == -1);
    exit(3);
}

int main(void) {
    CHECK(mkdir("empty", 0755) == 0);
    for (int i = 0; i < 8; i++) {
        printf("%d %d %d: %d\n", i & 1, i >> 1 & 1, i >> 2, try(i & 1, i >> 1 & 1, i >> 2));
        fflush(stdout);
    }
    CHECK(rmdir("empty") == 0);
    return 0;
}
