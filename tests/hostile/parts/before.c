/* A constructor and a destructor that allocate; the same code is preloaded before and, as after.c, after ramson. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char *kept[];
extern int kept_count;
void keep(const char *text);

__attribute__((constructor)) static void begin(void) { keep(strrchr(__BASE_FILE__, '/')); }

__attribute__((destructor)) static void end(void) {
    char text[80];
    for (int i = 0; i < kept_count; i++) {
        kept[i] = realloc(kept[i], 3000);
        free(kept[i]);
        kept[i] = NULL;
    }
    write(1, text, snprintf(text, sizeof text, "end of %s\n", strrchr(__BASE_FILE__, '/')));
}
