/* mcheck and mtrace of glibc's debugging malloc, preloaded after ramson: mprobe, and a block that was overrun.
   preload: after libc_malloc_debug.so.0
   allocators: glibc (they are its own)

   env: MALLOC_TRACE={tmp}/trace
   ends: 7 */
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void found(enum mcheck_status status) {
    printf("mcheck: %d\n", status);
    fflush(stdout);
    _exit(7);
}

int main(void) {
    printf("mcheck: %d\n", mcheck_pedantic(found));
    mtrace();
    char *blocks[50];
    for (int i = 0; i < 50; i++) memset(blocks[i] = malloc(i + 1), 1, i + 1);
    for (int i = 0; i < 50; i++) blocks[i] = realloc(blocks[i], 100 + i);
    printf("mprobe: %d\n", mprobe(blocks[10]));
    for (int i = 1; i < 50; i++) free(blocks[i]);
    muntrace();
    FILE *trace = fopen(getenv("MALLOC_TRACE"), "r");
    char line[200];
    long lines[256] = {0};
    while (fgets(line, sizeof line, trace)) {
        char *mark = strchr(line, ']');
        lines[(unsigned char)(mark ? mark[2] : line[0])]++;
    }
    printf("mtrace: %ld allocations, %ld frees, %ld and %ld reallocations\n", lines['+'], lines['-'], lines['<'], lines['>']);
    fflush(stdout);
    blocks[0][100] = 1;
    free(blocks[0]);
    return 0;
}
