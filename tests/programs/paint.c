/* How much of the stack an allocation uses: the first one of the process, one at a new place, one more at the same. Printed in bytes
   below the frame of main. */
#include <stdio.h>
#include <stdlib.h>

enum { PAINTED = 48 << 10, PAINT = 0xa5 };
static void *volatile kept[4];

__attribute__((noinline)) static void paint(void) {
    volatile unsigned char area[PAINTED];
    for (int i = 0; i < PAINTED; i++) area[i] = PAINT;
    (void)area[0];
}

/* Its frame is where that of `paint` was. */
__attribute__((noinline)) static int touched(void) {
    volatile unsigned char area[PAINTED];
    /* Says that it was written, and writes nothing. */
    __asm__ volatile("" : "=m"(area));
    int low = 0;
    while (low < PAINTED && area[low] == PAINT) low++;
    return PAINTED - low;
}

__attribute__((noinline)) static void allocate(int i) { kept[i] = malloc(100); }
__attribute__((noinline)) static void allocate_elsewhere(int i) { kept[i] = malloc(100); }

int main(void) {
    int used[3];
    for (int i = 0; i < 3; i++) {
        paint();
        (i == 0 ? allocate : allocate_elsewhere)(i);
        used[i] = touched();
    }
    printf("first %d\nnew %d\nknown %d\n", used[0], used[1], used[2]);
    return 0;
}
