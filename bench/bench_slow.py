"""Slow paths, counted: a sample with its free, and a free that looks for a sample in vain on a page that holds one.

Callgrind counts what a pair of malloc and free adds to the plain one: instructions, and cache lines of data. Before each call the program reads
twice as much memory as the simulated cache holds, so each line that a slow path touches is a miss, and each slow path checks whether the
profile is still there, as it does in programs that do other work in between. `make test` runs this.
"""

import machine
from machine import say
from measure import counts
from table import Row, Table

LOOP = machine.BUILT / "loop"
FEW, MANY = 100, 1100
# Once in 20 ms, however many samples there are meanwhile.
BY_TIME = "Recorder>::end_window"
# One of forty runs draws a sample of one of these blocks, with a stack that is new.
BY_CHANCE = "hooks::take_sample"
# Name of each path, how the loop allocates, the interval, the function whose calls do not count, and the most that may be added: instructions and cache lines. A larger number
# needs a reason in the commit that raises it. 1 MiB at 64 KiB: each one is a sample, and by its weight it stands for more than itself.
PATHS = [
    ("a sample of 1 MiB and its free", ["pairs", 1 << 20], "64K", BY_TIME, (2085, 105)),
    ("the same of 100 B at T = 1", ["pairs", 100], 1, BY_TIME, (1940, 93)),
    ("100 B on a page with a live sample", ["beside", 100], "4M", BY_CHANCE, (370, 30)),
]


def tables(plan):
    rows = []
    for what, (kind, size), interval, apart, limits in PATHS:
        say(f"slow: {what}")
        variants = {"plain": machine.environment(), "ramson": machine.ramson(interval, **machine.UNGOVERNED)}
        plain, ours = (per_pair(kind, size, environment, apart) for environment in variants.values())
        for unit, before, now, limit in zip(("instructions", "cache lines"), plain, ours, limits):
            added = now - before
            rows.append(Row(f"{what}: {unit}", f"{before:.1f}", f"{now:.1f}", ratio=f"{added:+.1f}", target=f"≤ +{limit:,}",
                            is_met=added <= limit, is_gate=True))
    note = ("Callgrind, a data cache of 32 KiB: two loop counts, their difference divided by the difference of the counts. "
            "In the program as many lines again are read before each malloc and each free: 2,048 of the plain pair's.")
    yield Table("Slow paths, counted", rows, note)


def per_pair(kind, size, environment, apart):
    """Instructions and cache lines of one pair."""
    few, many = (counts([LOOP, kind, count, size, 0, "cold"], environment, "slow", apart) for count in (FEW, MANY))
    return [(after - before) / (MANY - FEW) for before, after in zip(few, many)]
