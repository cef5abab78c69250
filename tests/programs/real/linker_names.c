// Functions under the linker's names that D, OCaml and gfortran give theirs, below each other.
#include <stdlib.h>
#include <string.h>

void *volatile kept[64];

static __attribute__((noinline)) void *own(int at) { return kept[at % 64] = memset(malloc(100000), 1, 100000); }

__attribute__((noinline)) void *template(int at) __asm__("_D3app5cache__T5CacheTPvZQk4loadMFiZv");
void *template(int at) { return (char *)own(at) + 1; }

__attribute__((noinline)) void *caml(int at) __asm__("camlStdlib__List__iter_350");
void *caml(int at) { return (char *)template(at) + 1; }

__attribute__((noinline)) void *fortran(int at) __asm__("__cache_MOD_load_table");
void *fortran(int at) { return (char *)caml(at) + 1; }

int main(void) {
    for (int at = 0; at < 64; at++) kept[at % 64] = (char *)fortran(at) - 3;
    abort();
}
