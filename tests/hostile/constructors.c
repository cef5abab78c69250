/* Allocates before main: in the preinit array, in constructors of every priority, and in those of libraries that are preloaded
   before and after ramson; main frees what they allocated, and their destructors what main allocated.
   build: -rdynamic
   lib: before.c
   lib: after.c
   preload: before {built}/before.so
   preload: after {built}/after.so
   representative */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *kept[16];
int kept_count;

void keep(const char *text) { kept[kept_count++] = strdup(text); }

static void preinit(void) { keep("preinit"); }
__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(void) = preinit;
__attribute__((constructor(101))) static void first(void) { keep("priority 101"); }
__attribute__((constructor)) static void last(void) { keep("no priority"); }

int main(void) {
    for (int i = 0; i < kept_count; i++) {
        puts(kept[i]);
        free(kept[i]);
        kept[i] = i % 2 ? calloc(1, 30) : NULL;
    }
    return 0;
}
