/* Somebody cuts the profile to nothing while the program runs: a mapped page without a file behind it is SIGBUS when it is touched.
   ramson: any */
#include "hostile.h"
#include <dirent.h>
#include <fcntl.h>

int main(void) {
    const char *directory = getenv("RAMSON_DIR");
    CHECK(directory != NULL);
    pid_t child = fork();
    if (child == 0) {
        take_a_certain_sample();
        DIR *files = opendir(directory);
        for (struct dirent *entry; files && (entry = readdir(files));) {
            int file = openat(dirfd(files), entry->d_name, O_WRONLY | O_TRUNC);
            if (file >= 0) close(file);
        }
        take_a_certain_sample();
        _exit(3);
    }
    printf("child: %d\n", status_of(child));
    return 0;
}
