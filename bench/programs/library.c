// A small library for `first.c`: `allocate` reaches malloc through ten functions of its own.
#include <stdlib.h>

#define LEVEL(name, next) \
    __attribute__((noipa)) static void *name(size_t size, const char *file, int line) { \
        char *block = next(size + 8, file, line + 1); \
        return block ? block + line % 2 * 0 : 0; \
    }

__attribute__((noipa)) static void *level_10(size_t size, const char *file, int line) {
    (void)file, (void)line;
    void *volatile block = malloc(size);
    return block;
}
LEVEL(level_9, level_10)
LEVEL(level_8, level_9)
LEVEL(level_7, level_8)
LEVEL(level_6, level_7)
LEVEL(level_5, level_6)
LEVEL(level_4, level_5)
LEVEL(level_3, level_4)
LEVEL(level_2, level_3)
LEVEL(allocate_inside, level_2)

void *allocate(size_t size, const char *file, int line) {
    void *volatile block = allocate_inside(size, file, line);
    return block;
}
