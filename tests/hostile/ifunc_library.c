/* Allocates in an IFUNC resolver of a library that the executable is linked with: the loader calls it while it relocates that
   library, after the C library and before ramson.
   lib: resolves.c -fno-plt
   build: {built}/resolves.so -Wl,-rpath,{built} */
#include <stdio.h>
#include <stdlib.h>

int resolved_indirectly(void);

int main(void) {
    printf("resolver of a library allocated: %d\n", resolved_indirectly());
    return 0;
}
