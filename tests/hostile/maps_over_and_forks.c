/* Maps memory of its own over every file that it does not know, by the system call itself, which nobody can hook, and forks: the child takes samples.
   ramson: any
   representative */
#include "hostile.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int main(void) {
    take_a_certain_sample();
    static char maps[1 << 17];
    static char *own[64];
    static size_t sizes[64], count;
    int file = open("/proc/self/maps", O_RDONLY);
    CHECK(file >= 0);
    size_t length = 0;
    for (ssize_t more; (more = read(file, maps + length, sizeof maps - 1 - length)) > 0;) length += more;
    maps[length] = 0;
    close(file);
    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;
        CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
        char *path = strchr(line, '/');
        if (!path || strstr(path, ".so") || strstr(path, "maps_over_and_forks")) continue;
        CHECK(count < 64);
        own[count] = (char *)start;
        sizes[count++] = end - start;
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        CHECK(syscall(SYS_mmap, start, end - start, PROT_READ | PROT_WRITE, flags, -1, 0) == (long)start);
        memset((char *)start, 0x77, end - start);
    }
    pid_t child = fork();
    if (child == 0) {
        take_a_certain_sample();
        for (size_t i = 0; i < count; i++) {
            for (size_t at = 0; at < sizes[i]; at++) CHECK(own[i][at] == 0x77);
        }
        _exit(5);
    }
    printf("child: %d\n", status_of(child));
    fflush(stdout);
    return 0;
}
