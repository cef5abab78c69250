// Becomes another user ("user N"), changes its root directory ("root DIR"), or neither ("nothing"), and then allocates.
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "user") && setresuid(atoi(argv[2]), atoi(argv[2]), atoi(argv[2])))
        err(1, "setresuid");
    if (argc == 3 && !strcmp(argv[1], "root") && (chroot(argv[2]) || chdir("/")))
        err(1, "chroot");
    for (int block = 0; block < 200; block++)
        *(char *)malloc(100000) = 1;
    // To be seen from outside.
    usleep(500000);
}
