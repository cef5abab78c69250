/* Allocates in at_quick_exit handlers; atexit handlers and destructors must not run.
   ends: 4 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *kept;

static void quickly(void) {
    for (int i = 0; i < 1000; i++) free(malloc(i * 100));
    puts(kept);
    free(kept);
    fflush(stdout);
}
static void slowly(void) { kept = realloc(kept, strlen(kept) + 100); }
static void never(void) { abort(); }

int main(void) {
    kept = strdup("quickly");
    atexit(never);
    at_quick_exit(quickly);
    for (int i = 0; i < 40; i++) at_quick_exit(slowly); /* More than the 32 that need no memory. */
    quick_exit(4);
}
