// Allocates, then forbids that its own user looks at it, as a program does that gives up rights.
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
    for (int block = 0; block < 100; block++)
        *(char *)malloc(100000) = 1;
    prctl(PR_SET_DUMPABLE, 0);
    puts("ready");
    fflush(stdout);
    pause();
}
