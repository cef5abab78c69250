/* Parts that hostile programs share: a check that ends the program with its line, memory that is really used, and where ramson lies. */
#ifndef HOSTILE_H
#define HOSTILE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                         \
    do {                                                                                                         \
        if (!(condition)) {                                                                                      \
            dprintf(2, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);                 \
            _exit(97);                                                                                           \
        }                                                                                                        \
    } while (0)

/* An allocation that no compiler removes, with every byte written. */
__attribute__((unused)) static void *used(size_t bytes) {
    void *volatile block = malloc(bytes);
    CHECK(block != NULL);
    memset(block, 0x5a, bytes);
    return block;
}

/* Makes `times` allocations of changing size, and looks at each before it is freed. */
__attribute__((unused)) static void churn(int times) {
    unsigned char *blocks[16] = {0};
    for (int i = 0; i < times; i++) {
        unsigned char **block = &blocks[i % 16];
        CHECK(*block == NULL || **block == 0x5a);
        free(*block);
        *block = used(1 + i * 37 % 2000);
    }
    for (int i = 0; i < 16; i++) free(blocks[i]);
}

/* An allocation so much larger than the usual interval that it is sampled, but for one run in e^128. */
__attribute__((unused)) static void take_a_certain_sample(void) {
    void *volatile block = malloc(64 << 20);
    CHECK(block != NULL);
    *(char *)block = 1;
    free(block);
}

/* Waits for a child; its exit status, or 1000 and the signal that killed it. A check that failed there has failed here too: plain
   and under ramson alike it would prove nothing. */
__attribute__((unused)) static int status_of(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) < 90);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ramson's code in this process, for programs that must be sure to have interrupted it; empty where it is not loaded. */
__attribute__((unused)) static unsigned long ramson_low, ramson_high;

static int look_for_ramson(struct dl_phdr_info *object, size_t bytes, void *unused) {
    (void)bytes;
    (void)unused;
    if (!strstr(object->dlpi_name, "libramson")) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        ramson_low = object->dlpi_addr + part->p_vaddr;
        ramson_high = ramson_low + part->p_memsz;
    }
    return 1;
}

__attribute__((unused)) static int ramson_is_loaded(void) {
    return dl_iterate_phdr(look_for_ramson, NULL);
}

/* Whether every allocation takes ramson's slow path. */
__attribute__((unused)) static int everything_is_sampled(void) {
    const char *interval = getenv("RAMSON_INTERVAL");
    return ramson_is_loaded() && interval && !strcmp(interval, "1");
}
#endif
