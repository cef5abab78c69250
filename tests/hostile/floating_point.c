/* The floating-point environment: no exception is raised, none that the program unmasked is a signal, and rounding, flushing and what
   was raised before stay as they are. Between two looks at it the program calls nothing but the allocator.
   build: -lm
   representative */
#include "hostile.h"
#include <fenv.h>
#include <sys/mman.h>
#include <xmmintrin.h>

enum { TIMES = 200 };

/* Sizes that are no power of two, by as much as a few samples at the usual interval stand for. */
static void allocate(void) {
    for (int i = 0; i < TIMES; i++) {
        char *volatile block = malloc(100001 + 37 * i);
        CHECK(block != NULL);
        block = realloc(block, 200003 + 41 * i);
        CHECK(block != NULL);
        free(block);
        free(malloc(33 + i));
        block = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(block, 12288);
    }
}

static void compare(const char *name, unsigned environment) {
    _mm_setcsr(environment);
    allocate();
    unsigned after = _mm_getcsr();
    _mm_setcsr(0x1f80);
    printf("%s: %x %x\n", name, environment, after);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int round = 0; round < 2; round++) {
        compare("nothing raised", 0x1f80);
        compare("inexact raised", 0x1fa0);
        compare("everything raised", 0x1fbf);
        compare("inexact unmasked", 0x0f80);
        compare("everything unmasked", 0x0000);
        compare("downward", 0x3f80);
        compare("upward", 0x5f80);
        compare("toward zero", 0x7f80);
        compare("denormals are zero and flushed", 0x9fc0);
    }
    /* As a library of mathematics would look at it. */
    CHECK(feclearexcept(FE_ALL_EXCEPT) == 0);
    allocate();
    printf("raised: %x\n", fetestexcept(FE_ALL_EXCEPT));
    CHECK(feenableexcept(FE_ALL_EXCEPT) != -1);
    allocate();
    printf("enabled: %x\n", fegetexcept());
    return 0;
}
