/* scanned: for each line of standard input, how many bytes of libramson.so a collector would scan that goes by the program headers of each
   object (Boehm's), and how many read-only parts it would miss in what it scans. */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long scanned, missed;

static int is_in_data(const struct dl_phdr_info *object, ElfW(Addr) address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_W && address - segment->p_vaddr < segment->p_memsz)
            return 1;
    }
    return 0;
}

static int look(struct dl_phdr_info *object, size_t bytes, void *unused) {
    if (!strstr(object->dlpi_name, "libramson.so")) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_W) scanned += segment->p_memsz;
        if (segment->p_type == PT_GNU_RELRO) missed += !is_in_data(object, segment->p_vaddr);
    }
    return 1;
}

int main(void) {
    char line[100];
    free(malloc(100));
    printf("ready 0\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        scanned = missed = 0;
        int is_there = dl_iterate_phdr(look, NULL);
        printf("loaded %d\nscanned %lu\nmissed %lu\n", is_there, scanned, missed);
        fflush(stdout);
    }
    return 0;
}
