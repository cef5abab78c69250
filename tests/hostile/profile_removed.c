/* The program removes, renames and replaces the files that it finds where profiles go, and the directory, while it runs.
   ramson: any
   representative */
#include "hostile.h"
#include <dirent.h>
#include <fcntl.h>

static void remove_all(const char *directory) {
    DIR *files = opendir(directory);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        if (entry->d_name[0] != '.') unlinkat(dirfd(files), entry->d_name, 0);
    }
    if (files) closedir(files);
    rmdir(directory);
}

int main(void) {
    const char *directory = getenv("RAMSON_DIR");
    CHECK(directory != NULL);
    take_a_certain_sample();
    remove_all(directory);
    CHECK(access(directory, F_OK) == -1);
    for (int i = 0; i < 40000; i++) CHECK(malloc(100) != NULL);
    /* A child starts anew; then something else has the directory's name. */
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            take_a_certain_sample();
            churn(1000);
            exit(2);
        }
        printf("child: %d\n", status_of(child));
        fflush(stdout);
        remove_all(directory);
        int file = open(directory, O_RDWR | O_CREAT | O_EXCL, 0600);
        CHECK(i == 1 || file >= 0);
    }
    CHECK(unlink(directory) == 0);
    churn(1000);
    puts("removed");
    return 0;
}
