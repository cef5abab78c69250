/* Loads and unloads 200 libraries, again and again at the same addresses, while threads allocate from those that are loaded. Each
   library has its own sizes, so that the profile can be asked whether it blames the right one: 5000 + number for what the threads
   free again, 100000 + number for what stays.
   lib: plugin.c -Wl,--build-id=0x00112233445566778899aabbccddeeff00112233
   args: {built}/plugin.so {tmp}
   time: 120 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIBRARIES = 200, LOADED = 4, ROUNDS = 2, THREADS = 2, CALLS = 20 };

typedef void *allocate(size_t size);

static struct {
    pthread_rwlock_t lock;
    void *library;
    allocate *allocate;
    int number;
} loaded[LOADED];
static _Atomic int is_over;
static _Atomic long turns;

static void copy(const char *original, const char *path, int number) {
    static char bytes[1 << 20];
    static const unsigned char id[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    FILE *in = fopen(original, "r"), *out = fopen(path, "w");
    size_t size = fread(bytes, 1, sizeof bytes, in);
    char *found = memmem(bytes, size, id, sizeof id);
    if (!found) abort();
    memcpy(found, &number, sizeof number);
    fwrite(bytes, 1, size, out);
    fclose(in);
    fclose(out);
}

static void *work(void *unused) {
    while (!is_over)
        for (int slot = 0; slot < LOADED; slot++) {
            pthread_rwlock_rdlock(&loaded[slot].lock);
            if (loaded[slot].library)
                for (int i = 0; i < CALLS; i++) free(loaded[slot].allocate(5000 + loaded[slot].number));
            pthread_rwlock_unlock(&loaded[slot].lock);
            turns++;
        }
    return unused;
}

static void replace(int slot, const char *path, int number, int is_kept) {
    pthread_rwlock_wrlock(&loaded[slot].lock);
    if (loaded[slot].library && dlclose(loaded[slot].library)) abort();
    loaded[slot].library = dlopen(path, RTLD_NOW);
    loaded[slot].allocate = loaded[slot].library ? (allocate *)dlsym(loaded[slot].library, "site_plugin_allocates") : NULL;
    loaded[slot].number = number;
    pthread_rwlock_unlock(&loaded[slot].lock);
    if (!loaded[slot].allocate) return (void)puts(dlerror());
    if (is_kept && !loaded[slot].allocate(100000 + number)) abort();
    /* The threads have been through this one before it goes. */
    long before = turns;
    while (turns < before + LOADED * THREADS) usleep(20);
}

int main(int argc, char **argv) {
    char path[4096];
    for (int i = 0; i < LOADED; i++) pthread_rwlock_init(&loaded[i].lock, NULL);
    for (int i = 0; i < LIBRARIES; i++) {
        snprintf(path, sizeof path, "%s/plugin_%d.so", argv[2], i);
        copy(argv[1], path, i);
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < LIBRARIES; i++) {
            snprintf(path, sizeof path, "%s/plugin_%d.so", argv[2], i);
            replace(i % LOADED, path, i, round == 0);
        }
    is_over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
