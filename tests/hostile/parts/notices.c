/* Not hostile: behaves otherwise under ramson, in the way that WAY names; for the tests of the matrix itself.
   With PLAIN it hangs without ramson.
   allocators: glibc (one is enough)
   ends: any
   time: 2 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void damage_profile(void) {
    char command[] = "for f in \"$RAMSON_DIR\"/*; do [ -e \"$f\" ] && rm \"$f\" && echo damaged > \"$f\"; done; true";
    unsetenv("LD_PRELOAD");
    _exit(system(command));
}

int main(void) {
    const char *way = getenv("WAY");
    const char *preloaded = getenv("LD_PRELOAD");
    int is_under_ramson = preloaded && strstr(preloaded, "ramson");
    free(malloc(10));
    if (!is_under_ramson) return getenv("PLAIN") ? pause() : 0;
    if (!strcmp(way, "stdout")) puts("noticed");
    if (!strcmp(way, "stderr")) fputs("noticed\n", stderr);
    if (!strcmp(way, "status")) return 1;
    if (!strcmp(way, "signal")) abort();
    if (!strcmp(way, "hang")) pause();
    if (!strcmp(way, "profile")) damage_profile();
    return 0;
}
