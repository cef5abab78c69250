// Has the C library's file mapped a second time, below the library itself, as who looks up names in it does; waits for a line on standard input.
#include <err.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    for (struct link_map *object = _r_debug.r_map; object != NULL; object = object->l_next) {
        if (strstr(object->l_name, "libc.so.6") == NULL) continue;
        struct stat facts;
        int file = open(object->l_name, O_RDONLY | O_CLOEXEC);
        if (file < 0 || fstat(file, &facts) != 0) err(1, "%s", object->l_name);
        char *copy = mmap(NULL, facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (copy == MAP_FAILED || copy > (char *)object->l_addr) err(1, "it is not mapped below");
        close(file);
        puts("ready 0");
        fflush(stdout);
        char byte;
        while (read(0, &byte, 1) == 1 && byte != '\n') {}
        return 0;
    }
    errx(1, "no C library");
}
