// A program that is no profiled one and looks like one: forges FILE LIBRARY BYTES maps LIBRARY, and so much memory that begins with the
// bytes of FILE, of which no more is touched.
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        errx(2, "forges FILE LIBRARY BYTES");
    int file = open(argv[1], O_RDONLY), library = open(argv[2], O_RDONLY);
    size_t bytes = strtoull(argv[3], NULL, 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // A page before and after that is not like it sets it apart from its neighbours.
    char *all = mmap(NULL, bytes + 8192, PROT_NONE, flags, -1, 0);
    char *memory = all + 4096;
    if (file < 0 || library < 0 || all == MAP_FAILED || mprotect(memory, bytes, PROT_READ | PROT_WRITE))
        err(1, "cannot begin");
    if (read(file, memory, 4096) != 4096 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, library, 0) == MAP_FAILED)
        err(1, "cannot map");
    // The header has the process ID at offset 20.
    *(int *)(memory + 20) = getpid();
    puts("ready");
    fflush(stdout);
    pause();
}
