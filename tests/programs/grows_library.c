// A library that keeps memory: what `visited` loads.
#include <stdlib.h>
#include <string.h>

void grow(int number) {
    while (number-- > 0) memset(malloc(2000), 1, 2000);
}
