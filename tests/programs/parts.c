/* Memory of one kind beside next to nothing: `parts KIND`, which prints "ready" and waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1L << 20)
#ifndef LOCAL_BYTES
#define LOCAL_BYTES 64
#endif

static char session_table[48 << 20];

static void *end_at_once(void *unused) {
    volatile char on_stack[64 << 10];
    for (int at = 0; at < sizeof on_stack; at += 1024) on_stack[at] = 1;
    return unused;
}

static void *wait_forever(void *unused) {
    static __thread char own_table[LOCAL_BYTES];
    memset(own_table, 1, sizeof own_table);
    pause();
    return unused;
}

static char *map(long bytes, int flags, int file) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
}

static void *switched(void *stack) {
    /* As a coroutine does: this thread runs on a piece of a large area that is no stack. */
    __asm__ volatile("xchg %%rsp, %0\n\tcall pause\n\txchg %%rsp, %0"
                     : "+r"(stack)::"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
    return 0;
}

int main(int count, char **words) {
    pthread_t thread;
    const char *kind = count > 1 ? words[1] : "";
    if (!strcmp(kind, "variables")) {
        memset(session_table, 1, sizeof session_table);
    } else if (!strcmp(kind, "lazy")) {
        char *block = map(48 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        madvise(block, 48 * MIB, MADV_NOHUGEPAGE);
        memset(block, 1, 48 * MIB);
        madvise(block, 48 * MIB, MADV_FREE);
        memset(block, 1, 8 * MIB);
    } else if (!strcmp(kind, "shared")) {
        int file = memfd_create("row_heap", 0);
        if (ftruncate(file, 24 * MIB)) return 1;
        memset(map(24 * MIB, MAP_SHARED, file), 1, 24 * MIB);
        char *again = map(24 * MIB, MAP_SHARED, file);
        for (long at = 0; at < 24 * MIB; at += 4096) again[at] = 2;
    } else if (!strcmp(kind, "ended")) {
        for (int number = 0; number < 300; number++)
            if (pthread_create(&thread, 0, end_at_once, 0)) return 1;
        sleep(1);
    } else if (!strcmp(kind, "locals")) {
        for (int number = 0; number < 8; number++)
            if (pthread_create(&thread, 0, wait_forever, 0)) return 1;
        sleep(1);
    } else if (!strcmp(kind, "coroutine")) {
        char *area = map(48 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        memset(area, 1, 48 * MIB);
        if (pthread_create(&thread, 0, switched, area + 24 * MIB)) return 1;
        sleep(1);
    }
    puts("ready");
    fflush(stdout);
    pause();
}
