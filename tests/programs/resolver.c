/* An IFUNC resolver that allocates, in the executable. */
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept[6];

static const char *resolved(void) { return kept[5] ? "resolved" : "not resolved"; }

static void *resolve(void) {
    kept[5] = realloc(malloc(100), 200);
    free(calloc(3, 7));
    free(malloc(0));
    return (void *)resolved;
}

const char *name(void) __attribute__((ifunc("resolve")));

__attribute__((noinline)) static void site_main(void) {
    for (int i = 0; i < 5; i++) kept[i] = malloc(611);
}

int main(void) {
    site_main();
    puts(name());
    return 0;
}
