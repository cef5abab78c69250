/* Allocates in an IFUNC resolver of the executable, which runs while the loader is still relocating it.
   representative */
#include <stdio.h>
#include <stdlib.h>

static void *resolved;
static int answer(void) { return resolved != NULL; }
static int (*resolve(void))(void) {
    free(malloc(100));
    resolved = calloc(3, 5000);
    return answer;
}
__attribute__((ifunc("resolve"))) int indirect(void);

int main(void) {
    printf("resolver allocated: %d\n", indirect());
    free(resolved);
    return 0;
}
