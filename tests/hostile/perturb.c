/* M_PERTURB: fresh memory holds the complement of the byte, freed memory the byte; calloc gives zeroes all the same.
   allocators: glibc (it is its own)
   env: GLIBC_TUNABLES=glibc.malloc.perturb=85 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    mallopt(M_PERTURB, 0x5a);
    long fresh = 0, zero = 0, old = 0;
    for (size_t size = 8; size < 300000; size = size * 3 / 2) {
        unsigned char *block = malloc(size), *cleared = calloc(1, size);
        for (size_t i = 0; i < size; i++) {
            fresh += block[i] == 0xa5;
            zero += cleared[i] == 0;
        }
        volatile unsigned char *stale = block;
        free(cleared);
        free(block);
        if (size < 1000) old += stale[size - 1] == 0x5a;
    }
    printf("%ld %ld %ld\n", fresh, zero, old);
    return 0;
}
