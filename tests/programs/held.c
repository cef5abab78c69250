/* Holds 8 MiB until its standard input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static void *site_held(void) { return malloc(65536); }

int main(void) {
    static void *held[128];
    for (int at = 0; at < 128; at++) memset(held[at] = site_held(), 1, 65536);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) == 1) {}
    return held[0] == NULL;
}
