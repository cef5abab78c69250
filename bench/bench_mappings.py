"""The price of a pair of mmap and munmap of 1 MiB, each of which is recorded, beside mappings that stay."""

import machine
from machine import say
from measure import interleave, results_of, run
from table import Row, Table

MAPPINGS = machine.BUILT / "mappings"
SITUATIONS = ((0, "kernel"), (1_000, "kernel"), (10_000, "kernel"), (50_000, "kernel"), (1_000, "random"), (10_000, "random"))


def tables(plan):
    if not plan.is_check:
        yield mappings_table(plan)


def mappings_table(plan):
    variants = {"plain": machine.environment(), "ramson": machine.ramson()}
    count = 5_000 if plan.is_quick else 20_000
    rows = []
    for live, addresses in SITUATIONS:
        say(f"mappings: {live:,}, {addresses}")
        series = interleave(variants, plan.rounds(9, 3), lambda environment:
                            results_of(run([MAPPINGS, count, live, addresses], environment))[0])
        where = "" if addresses == "kernel" else ", at random addresses"
        rows.append(Row(f"{live:,} mappings live{where}", series["plain"].text(digits=0), series["ramson"].text(digits=0),
                        ratio=f"{(series['ramson'] - series['plain']).median:+,.0f} ns"))
    note = "ns of CPU time a pair. A mapping of 1 MiB is always recorded with its stack; its memory is not touched."
    return Table("A pair of mmap and munmap", rows, note)
