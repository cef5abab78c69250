"""Writes and builds a program with very many distinct call paths: `stacks COUNT [wait]`.

A path is a random number; each of its digits says which function of the next level is called. Every path allocates one
block and keeps it. With `wait` the program then prints "ready" and stays, as a server would.
"""

import machine

LEVELS = 16
FUNCTIONS = 16

HEAD = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

__attribute__((noipa)) static long allocate(uint64_t path) {
    char *block = malloc(64);
    (void)path;
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block != 0;
}
"""

MAIN = """
int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 1;
    volatile long sum = 0;
    for (long i = 0; i < count; i++)
        sum += dispatch_0(next_random());
    if (argc > 2 && strcmp(argv[2], "wait") == 0) {
        puts("ready");
        fflush(stdout);
        pause();
    }
    return 0;
}
"""


def dispatch(level):
    """A function that a digit sends to one of the level's functions, each through a call of its own."""
    cases = "\n".join(f"    case {index}: return level_{level}_{index}(path >> 4) + {index + 1};" for index in range(FUNCTIONS))
    return (f"static inline __attribute__((always_inline)) long dispatch_{level}(uint64_t path) {{\n"
            f"    switch (path & 15) {{\n{cases}\n    }}\n    return 0;\n}}\n")


def source():
    parts = [HEAD]
    for level in reversed(range(LEVELS)):
        below = f"dispatch_{level + 1}(path)" if level + 1 < LEVELS else "allocate(path)"
        parts += [f"__attribute__((noipa)) static long level_{level}_{index}(uint64_t path) {{\n"
                  f"    return {below} + {level};\n}}\n" for index in range(FUNCTIONS)]
        parts.append(dispatch(level))
    return "".join(parts) + MAIN


def build_stacks_program():
    path = machine.BUILT / "stacks.c"
    path.write_text(source())
    return machine.compile_c(path, "stacks", "-g")
