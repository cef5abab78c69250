#!/usr/bin/env python3
"""Prints collapsed stacks, a million unless a number is given, that branch as a large server's do: the same from one run to the next.

    bench/million_stacks.py > stacks && ramson serve stacks
"""

import random
import sys


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    chance = random.Random(1)
    names = [f"service{n % 97}::Handler{n}::process" for n in range(20_000)]
    # A stack shares its beginning with the one before, as those of one program do.
    stack = ["main", "serve"]
    for _ in range(count):
        del stack[2 + int(chance.random() * len(stack)):]
        while len(stack) < 12 + chance.randrange(20):
            stack.append(names[int(len(names) * chance.random() ** 3)])
        sys.stdout.write(f"{';'.join(stack)} {int(64 * chance.paretovariate(0.9))}\n")


main()
