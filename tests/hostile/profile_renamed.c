/* The program renames its profile and goes on, a child of it too; then it gives the old name to a file of its own, which must stay
   as it is when the process ends.
   ramson: any */
#include "hostile.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

/* Gives every profile another name, and its own to an empty file; how many there were. */
static int rename_all(const char *directory) {
    int count = 0;
    DIR *files = opendir(directory);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        char other[300];
        if (entry->d_name[0] == '.' || strstr(entry->d_name, "renamed")) continue;
        snprintf(other, sizeof other, "%s.renamed", entry->d_name);
        CHECK(renameat(dirfd(files), entry->d_name, dirfd(files), other) == 0);
        int file = openat(dirfd(files), entry->d_name, O_CREAT | O_EXCL | O_WRONLY, 0600);
        CHECK(file >= 0 && close(file) == 0);
        count++;
    }
    if (files) closedir(files);
    return count;
}

static int try(const char *directory) {
    pid_t child = fork();
    if (child != 0) return status_of(child);
    take_a_certain_sample();
    int count = rename_all(directory);
    CHECK(count > 0 || !everything_is_sampled());
    for (int i = 0; i < 40000; i++) CHECK(malloc(100) != NULL);
    take_a_certain_sample();
    exit(3);
}

/* The program's own files, which the end of the child must have left, go before the profiles are looked at. */
static int remove_own(const char *directory) {
    int count = 0;
    DIR *files = opendir(directory);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        struct stat status;
        if (entry->d_name[0] == '.' || strstr(entry->d_name, "renamed")) continue;
        CHECK(fstatat(dirfd(files), entry->d_name, &status, 0) == 0 && status.st_size == 0);
        CHECK(unlinkat(dirfd(files), entry->d_name, 0) == 0);
        count++;
    }
    if (files) closedir(files);
    return count;
}

int main(void) {
    const char *directory = getenv("RAMSON_DIR");
    CHECK(directory != NULL);
    take_a_certain_sample();
    printf("child: %d\n", try(directory));
    fflush(stdout);
    CHECK(remove_own(directory) > 0 || !everything_is_sampled());
    churn(1000);
    puts("renamed");
    return 0;
}
