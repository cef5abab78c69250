/* A library whose IFUNC resolver allocates. */
#include <stdlib.h>

static char *resolved;
static int answer(void) { return resolved != NULL; }
static int (*resolve(void))(void) {
    free(malloc(100));
    resolved = calloc(3, 5000);
    resolved = realloc(resolved, 40000);
    return answer;
}
__attribute__((ifunc("resolve"))) int resolved_indirectly(void);

/* Has the loader call the resolver while it relocates this library. */
int (*resolved_at_once)(void) = resolved_indirectly;
