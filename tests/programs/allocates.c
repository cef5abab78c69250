// Allocates in several ways, frees all of it, and says whether each was as it should be.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *in_thread(void *unused) {
    (void)unused;
    char *block = calloc(100, 1);
    int is_zero = block && !block[0] && !block[99];
    free(block);
    return (void *)(long)is_zero;
}

int main(void) {
    char *block = malloc(100);
    if (block) strcpy(block, "kept");
    block = realloc(block, 5000000);
    printf("malloc and realloc: %s\n", block ? block : "refused");
    free(block);
    void *aligned = aligned_alloc(4096, 8192);
    printf("aligned_alloc: %d\n", aligned && (unsigned long)aligned % 4096 == 0);
    free(aligned);
    char *mapped = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("mmap: %d\n", mapped && mapped != MAP_FAILED && (mapped[100] = 1));
    printf("munmap: %d\n", munmap(mapped, 8 << 20));
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, in_thread, NULL) == 0) pthread_join(thread, &result);
    printf("in a thread: %ld\n", (long)result);
    exit(7);
}
