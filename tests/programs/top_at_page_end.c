// The head of the top chunk ends with its page, the page behind it is absent, and the main arena is in parts because the program break is blocked.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
    static char output[256], input[256];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    setvbuf(stdin, input, _IOFBF, sizeof input);
    char *end = sbrk(0);
    if (mmap(end + (1 << 20), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED) abort();
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    // The last block begins a part.
    char *before = NULL, *last = NULL;
    for (int i = 0; i < 40 || last - before == 100016; i++) {
        before = last;
        if ((last = malloc(100000)) == NULL) abort();
    }
    // Larger than every free chunk: cut from the top.
    uintptr_t top = (uintptr_t)last + malloc_usable_size(last) - 8;
    if (malloc((0xff0 - top) % 4096 + 15 * 4096 - 8) == NULL) abort();
    struct mallinfo2 info = mallinfo2();
    printf("arena %zu free %zu\n", info.arena, info.fordblks);
    fflush(stdout);
    return getchar() == EOF;
}
