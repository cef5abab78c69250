"""The price of mmap and munmap: of what is recorded, of what is not, and of a program that unmaps page by page."""

import os
import time

import machine
from machine import say
from measure import instructions, interleave, results_of, run
from table import Row, Table

EXTENTS = machine.BUILT / "extents"
SITUATIONS = ((0, "kernel"), (1_000, "kernel"), (10_000, "kernel"), (50_000, "kernel"), (1_000, "random"), (10_000, "random"))
MOST_INSTRUCTIONS = 20
MOST_RATIO = 1.1


def tables(plan):
    yield unrecorded_table(plan)
    if not plan.is_check:
        yield pairs_table(plan)
        if machine.has("stress-ng"):
            yield pages_table(plan)


def unrecorded_table(plan):
    """Calls that begin and end no extent leave the hook by its fast path."""
    variants = {"plain": machine.environment(), "ramson": machine.ramson()}
    least, most = 1_000, 11_000
    rows = []
    for what, mode, limit in (("munmap of 64 KiB", "unmap", MOST_INSTRUCTIONS), ("mmap and munmap of 64 KiB", "small", None)):
        per_call = {}
        for name, environment in variants.items():
            few, many = (instructions([EXTENTS, count, 1, mode], environment, f"extents.{name}", must_allocate=False)
                         for count in (least, most))
            per_call[name] = (many - few) / (most - least)
        more = per_call["ramson"] - per_call["plain"]
        is_met = None if limit is None else more <= limit
        rows.append(Row(what, f"{per_call['plain']:.1f}", f"{per_call['ramson']:.1f}", ratio=f"{more:+.1f}",
                        target="—" if limit is None else f"≤ +{limit}", is_met=is_met, is_gate=limit is not None))
    return Table("What is no extent", rows, "Instructions a call, outside the kernel.")


def pairs_table(plan):
    variants = {"plain": machine.environment(), "ramson": machine.ramson()}
    count = 5_000 if plan.is_quick else 20_000
    rows = []
    for live, addresses in SITUATIONS:
        say(f"extents: {live:,}, {addresses}")
        series = interleave(variants, plan.rounds(9, 3), lambda environment:
                            results_of(run([EXTENTS, count, live, addresses], environment))[0])
        where = "" if addresses == "kernel" else ", at random addresses"
        rows.append(Row(f"{live:,} extents live{where}", series["plain"].text(digits=0), series["ramson"].text(digits=0),
                        ratio=f"{(series['ramson'] - series['plain']).median:+,.0f} ns"))
    note = "ns of CPU time a pair. A mapping of 1 MiB is always recorded with its stack; its memory is not touched."
    return Table("A pair of mmap and munmap", rows, note)


def pages_table(plan):
    say("extents: page by page")
    variants = {"plain": machine.environment(), "ramson": machine.ramson()}
    series = interleave(variants, plan.rounds(9, 7), times_of_stress)
    rows = []
    for index, what in enumerate(("wall clock", "user time", "user and system time")):
        plain, ramson = series["plain"].only(index), series["ramson"].only(index)
        ratio = ramson.median / plain.median
        rows.append(Row(what, plain.text(digits=2), ramson.text(digits=2), ratio=f"{ratio:.3f}",
                        target=f"≤ {MOST_RATIO}", is_met=ratio <= MOST_RATIO))
    return Table("stress-ng --mmap 1 --mmap-ops 4", rows,
                 "Seconds; the ratio is that of the medians. Maps 256 MiB, and unmaps and maps it again page by page, in a random order.")


def times_of_stress(environment):
    """Wall clock, user time, and both times."""
    before, start = os.times(), time.monotonic()
    run(["stress-ng", "--quiet", "--mmap", 1, "--mmap-ops", 4], environment)
    wall, after = time.monotonic() - start, os.times()
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return wall, user, user + system
