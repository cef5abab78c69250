/* never_waits: reads a file of its own, writes and allocates without a pause, and never waits. Ends with 9 if a call fails, was interrupted,
   or a block is not as it was. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    char name[] = "/tmp/never-waits-XXXXXX", bytes[4096] = {3};
    int file = mkstemp(name), null = open("/dev/null", O_WRONLY);
    if (unlink(name) || write(file, bytes, sizeof bytes) != sizeof bytes) return 8;
    printf("ready 0\n");
    fflush(stdout);
    for (long round = 0; getppid() != 1; round++) {
        size_t size = 4096 + round * 7919 % 30000;
        char *block = malloc(size);
        memset(block, 7, size);
        errno = 0;
        if (lseek(file, 0, SEEK_SET) || read(file, block, 4096) != 4096 || write(null, block, size) != (ssize_t)size || errno) return 9;
        if (block[0] != 3 || block[size - 1] != (size == 4096 ? 0 : 7)) return 9;
        free(block);
    }
    return 0;
}
