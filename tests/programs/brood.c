// Forks short children, so many at once, each of which allocates: `brood CHILDREN AT_ONCE [BYTES]`. With BYTES it goes on after each
// batch only when the files of RAMSON_DIR take no more than that on disk; if that takes a minute, its status is 3.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200, BLOCK_BYTES = 1000 };

static void *blocks[BLOCKS];

__attribute__((noinline)) static void site_child(void) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(BLOCK_BYTES);
    for (int i = 0; i < BLOCKS; i += 2) free(blocks[i]);
}

__attribute__((noinline)) static void site_parent(void) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(BLOCK_BYTES);
}

static long long bytes_on_disk(const char *path) {
    long long bytes = 0;
    DIR *directory = opendir(path);
    if (!directory) return 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat facts;
        if (!fstatat(dirfd(directory), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) && S_ISREG(facts.st_mode))
            bytes += facts.st_blocks * 512LL;
    }
    closedir(directory);
    return bytes;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    int children = atoi(words[1]), at_once = atoi(words[2]);
    long long most_bytes = count > 3 ? atoll(words[3]) : -1;
    site_parent();
    for (int begun = 0; begun < children;) {
        int batch = 0;
        for (; batch < at_once && begun < children; batch++, begun++) {
            pid_t child = fork();
            if (child < 0) return 4;
            if (!child) {
                site_child();
                _exit(0);
            }
        }
        while (batch--) wait(NULL);
        for (int looks = 0; most_bytes >= 0 && bytes_on_disk(getenv("RAMSON_DIR")) > most_bytes; looks++) {
            if (looks == 6000) return 3;
            usleep(10000);
        }
    }
    return 0;
}
