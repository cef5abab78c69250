/* longjmp out of frames that allocated, out of callbacks of the C library that holds memory of its own, and back into a frame whose
   depth differs; setjmp between samples.
   representative */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf back;
static char *blocks[64];
static int count;

static void deep(int depth) {
    char room[depth * 8 + 8];
    memset(room, depth, sizeof room);
    if (depth % 4 == 0) blocks[count++] = malloc(depth * 100 + 1);
    if (depth == 0) longjmp(back, room[0] + 5);
    deep(depth - 1);
}

static int jumps(const void *a, const void *b) {
    if (*(const long *)a == 777 || *(const long *)b == 777) longjmp(back, 3);
    free(malloc(100));
    return *(const long *)a < *(const long *)b ? -1 : 1;
}

int main(void) {
    volatile long sum = 0;
    static long numbers[1000];
    for (volatile int round = 0; round < 300; round++) {
        count = 0;
        int value = setjmp(back);
        if (value == 0) deep(60);
        sum += value * count;
        for (int i = 0; i < count; i++) free(blocks[i]);
        for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1000;
        value = setjmp(back);
        if (value == 0) qsort(numbers, 1000, sizeof *numbers, jumps);
        sum += value;
        free(realloc(malloc(round), round * 10));
    }
    printf("%ld\n", (long)sum);
    return 0;
}
