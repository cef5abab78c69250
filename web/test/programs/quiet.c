/* Maps memory, allocates next to nothing, and waits until its input ends. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MAPPED_BYTES = 4 << 20 };

int main(void) {
    void *mapped = mmap(0, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, MAPPED_BYTES);
    puts("ready");
    fflush(stdout);
    return getchar() == 'q';
}
