/* M_PERTURB: fresh memory holds the complement of the byte, but where a thread's cache gives it; calloc gives zeroes all the same.
   allocators: glibc (it is its own)
   env: GLIBC_TUNABLES=glibc.malloc.perturb=85 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes that the free lists write into a block of theirs, and leave there: addresses, a random number. */
enum { LINK_BYTES = 16 };

int main(void) {
    mallopt(M_PERTURB, 0x5a);
    long fresh = 0, zero = 0;
    for (size_t size = 8; size < 300000; size = size * 3 / 2) {
        unsigned char *block = malloc(size), *cleared = calloc(1, size);
        for (size_t i = 0; i < size; i++) {
            fresh += i >= LINK_BYTES && block[i] == 0xa5;
            zero += cleared[i] == 0;
        }
        free(cleared);
        free(block);
    }
    printf("%ld %ld\n", fresh, zero);
    return 0;
}
