// A library that keeps memory, or takes and returns it: what `visited` loads.
#include <stdlib.h>
#include <string.h>

void grow(int number) {
    while (number-- > 0) memset(malloc(2000), 1, 2000);
}

/* How many blocks had what was written into them. */
long turn_over(int number) {
    long whole = 0;
    while (number-- > 0) {
        unsigned char *block = malloc(3000 + number);
        memset(block, number, 3000 + number);
        whole += block[0] == (unsigned char)number && block[2999 + number] == (unsigned char)number;
        free(block);
    }
    return whole;
}
