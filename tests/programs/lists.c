// Changes the loader's own list of objects, then waits for a line on standard input, puts the list back and ends.
// lists public|wild|copies|tables|names|cycle|self COUNT.
//   public  COUNT entries that have the public part only (link.h), at the end of pages behind which nothing is
//   wild    COUNT entries, as long as the loader's, whose pointers lead nowhere
//   copies  COUNT copies of the C library's entry
//   tables  COUNT entries with a dynamic section whose tables are large, or lead nowhere
//   names   COUNT entries with a name and a dynamic section without an end
//   cycle   the last entry leads back to the second one
//   self    the last entry leads to itself
#include <err.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOWHERE ((void *)0xa5a5a5a5a5a5a5a5)
enum { ENTRY_BYTES = 2048, PAGE_BYTES = 4096 };

static void *mapped(size_t bytes) {
    char *memory = mmap(NULL, bytes + PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + bytes, PAGE_BYTES, PROT_NONE) != 0) err(1, "mmap");
    return memory;
}

static struct link_map *forged(const char *how, const struct link_map *model) {
    static ElfW(Dyn) *tables;
    static char *endless;
    if (tables == NULL) {
        endless = mapped(PAGE_BYTES);
        memset(endless, 'a', PAGE_BYTES);
        ElfW(Dyn) entries[] = {
            {DT_STRTAB, {(unsigned long)endless}}, {DT_STRSZ, {1ul << 60}}, {DT_SYMTAB, {0xa5a5a5a5a5a5a5a5}},
            {DT_RELA, {-8ul}}, {DT_RELASZ, {-1ul}}, {DT_RELACOUNT, {-1ul >> 3}}, {DT_JMPREL, {8}}, {DT_PLTRELSZ, {-1ul}},
            {DT_GNU_HASH, {(unsigned long)endless}}, {DT_SONAME, {-1ul}}, {DT_NEEDED, {-1ul}}, {DT_NULL, {0}},
        };
        tables = mapped(PAGE_BYTES);
        memcpy(tables, entries, sizeof entries);
    }
    struct link_map *entry;
    if (strcmp(how, "public") == 0) {
        entry = (void *)((char *)mapped(PAGE_BYTES) + PAGE_BYTES - sizeof *entry);
        *entry = (struct link_map){.l_name = "forged", .l_ld = model->l_ld, .l_addr = model->l_addr};
        return entry;
    }
    entry = calloc(1, ENTRY_BYTES);
    if (strcmp(how, "copies") == 0)
        memcpy(entry, model, 1100);
    else if (strcmp(how, "tables") == 0)
        *entry = (struct link_map){.l_name = "forged", .l_ld = tables};
    else if (strcmp(how, "names") == 0)
        *entry = (struct link_map){.l_name = endless, .l_ld = (void *)endless};
    else
        *entry = (struct link_map){.l_name = NOWHERE, .l_ld = NOWHERE, .l_addr = 0xa5a5a5a5a5a5a5a5};
    return entry;
}

int main(int count, char **arguments) {
    if (count != 3) errx(2, "lists public|wild|copies|tables|names|cycle|self COUNT");
    struct link_map *first = _r_debug.r_map, *last = first, *model = first;
    for (; last->l_next != NULL; last = last->l_next)
        if (strstr(last->l_name, "libc.so.6") != NULL) model = last;
    struct link_map *end = last;
    for (long left = atol(arguments[2]); left > 0; left--) {
        struct link_map *entry = forged(arguments[1], model);
        entry->l_next = NULL;
        entry->l_prev = last;
        last->l_next = entry;
        last = entry;
    }
    if (strcmp(arguments[1], "cycle") == 0) end->l_next = first->l_next;
    if (strcmp(arguments[1], "self") == 0) end->l_next = end;
    int is_changed = end->l_next != NULL;
    puts("ready 0");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) == 1 && byte != '\n') {}
    if (is_changed) end->l_next = NULL;
    return 0;
}
