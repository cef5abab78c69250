// Holds COUNT objects of SIZE bytes and prints `result RSS_BYTES ANONYMOUS_BYTES FILE_BYTES`: `objects COUNT SIZE`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long status_bytes(const char *name) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = atol(line + strlen(name));
    if (status)
        fclose(status);
    return kib * 1024;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return fprintf(stderr, "usage: objects COUNT SIZE\n"), 2;
    long count = atol(argv[1]);
    size_t size = strtoul(argv[2], 0, 10);
    void **last = 0;
    for (long i = 0; i < count; i++) {
        void **object = malloc(size < sizeof(void *) ? sizeof(void *) : size);
        if (!object)
            return fprintf(stderr, "objects: out of memory\n"), 1;
        *object = last;
        last = object;
    }
    long rss = status_bytes("VmRSS:");
    printf("result %ld %ld %ld\n", rss, status_bytes("RssAnon:"), status_bytes("RssFile:") + status_bytes("RssShmem:"));
    return last == 0;
}
