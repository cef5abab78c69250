/* Takes out of its address space every mapping of a file that it does not know, as checkpoints, sandboxes and loaders of their own do: by
   munmap, by mmap over it, by mremap over it; before the first sample, after it, and where ramson's profile is in private
   memory (known by its first bytes), as under an inherited filter. With one thread: docs/internals/edge-cases.md says what
   others may meet.
   ramson: any
   representative */
#include "hostile.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { UNMAP, MAP_OVER, MOVE_OVER, WAYS };
enum { BEFORE_SAMPLES, AFTER_SAMPLES, PRIVATE, TIMES };

static void take_out(char *start, size_t bytes, int way) {
    if (way == UNMAP) {
        CHECK(munmap(start, bytes) == 0);
        return;
    }
    if (way == MAP_OVER) {
        CHECK(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start);
    } else {
        char *other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(other != MAP_FAILED);
        CHECK(mremap(other, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start) == start);
    }
    /* It is the program's own now: what is written there stays. */
    memset(start, 0x77, bytes);
}

/* Whether the program knows what is mapped there. */
static int is_known(const char *line, const char *start, int time) {
    const char *path = strchr(line, '/');
    if (path) return strstr(path, ".so") || strstr(path, "unmaps_unknown");
    return time != PRIVATE || !strstr(line, " rw-p ") || strchr(line, '[') || memcmp(start, "\x89RMSN", 5) != 0;
}

static char *own[64];
static size_t sizes[64], count;

/* Without an allocation, which might be the first sample. */
static void take_out_unknown(int way, int time) {
    static char maps[1 << 17];
    int file = open("/proc/self/maps", O_RDONLY);
    CHECK(file >= 0);
    size_t length = 0;
    for (ssize_t more; (more = read(file, maps + length, sizeof maps - 1 - length)) > 0;) length += more;
    maps[length] = 0;
    close(file);
    for (char *line = strtok(maps, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;
        CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
        if (is_known(line, (char *)start, time)) continue;
        CHECK(count < 64);
        own[count] = (char *)start;
        sizes[count++] = end - start;
        take_out((char *)start, end - start, way);
    }
}

static void go_on(int way) {
    churn(5000);
    take_a_certain_sample();
    for (size_t i = 0; way != UNMAP && i < count; i++) {
        for (size_t at = 0; at < sizes[i]; at += 8) CHECK(own[i][at] == 0x77);
    }
}

static void allow_everything(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void go(int way, int time) {
    if (time != BEFORE_SAMPLES) take_a_certain_sample();
    take_out_unknown(way, time);
    go_on(way);
}

int main(int count, char **arguments) {
    if (count > 1) {
        go(atoi(arguments[1]), PRIVATE);
        return 3;
    }
    for (int round = 0; round < WAYS * TIMES; round++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            if (round / WAYS == PRIVATE) {
                char way[] = {'0' + round % WAYS, 0};
                allow_everything();
                execl("/proc/self/exe", "unmaps_unknown", way, (char *)NULL);
            }
            go(round % WAYS, round / WAYS);
            exit(3);
        }
        printf("%d: %d\n", round, status_of(child));
    }
    return 0;
}
