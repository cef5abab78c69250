"""Firsts: the first sample of a process, the first one through a newly opened library, and starting a program at all."""

import pathlib

import machine
from machine import say
from measure import instructions, interleave, results_of, run, wall_seconds
from table import Row, Table

FIRST = machine.BUILT / "first"
# Far beyond the interval: each such allocation is a sample.
SURE_BYTES = 64 << 20
TRUE = "/bin/true"
LIBRARIES = (
    ("a small library", machine.BUILT / "library.so", "allocate"),
    ("libcrypto", machine.SYSTEM_LIBRARIES / "libcrypto.so.3", "CRYPTO_malloc"),
)


def tables(plan):
    yield start_table()
    if not plan.is_check:
        yield first_table(plan)


def start_table():
    say("starts: instructions of /bin/true")
    plain = instructions([TRUE], machine.environment(), "true")
    # A program as short as this one need not allocate, so the hooks are not required to have run.
    ours = instructions([TRUE], machine.ramson(), "true", must_allocate=False)
    other = {name: instructions([TRUE], environment, "true") for name, environment in machine.peers().items()}
    peers = ", ".join(f"{name} +{(count - plain) / 1e6:.2f} M" for name, count in other.items() if "prof" in name)
    added = ours - plain
    row = Row("/bin/true, from ld.so to exit", f"{plain / 1e6:.3f} M", f"{ours / 1e6:.3f} M", peers or "not installed",
              f"{added / 1e6:+.3f} M", "≤ +0.2 M", added <= 200_000, is_gate=True)
    return Table("Starting a program, instructions", [row])


def first_table(plan):
    rounds = plan.rounds(21, 7)
    say("starts: first samples")
    variants = {"plain": machine.environment(), "ramson": machine.ramson()}
    cases = [("the process's first sample", [])]
    cases += [(f"the first through {name}, just opened", [path, function]) for name, path, function in LIBRARIES
              if pathlib.Path(path).exists()]
    rows = []
    for label, arguments in cases:
        both = interleave(variants, rounds, lambda environment:
                          results_of(run([FIRST, SURE_BYTES, *arguments], environment)))
        first = {name: series.only(0) for name, series in both.items()}
        second = both["ramson"].only(1)
        added = first["ramson"] - first["plain"]
        rows.append(Row(label, first["plain"].text(1e-3), first["ramson"].text(1e-3), "—",
                        f"{added.median / 1e3:+.0f} µs; the next one {second.median / 1e3:.0f} µs", "≤ 1,000 µs added",
                        added.median <= 1e6))
    walls = interleave(variants, plan.rounds(101, 21), lambda environment: wall_seconds([TRUE], environment)[0])
    rows.append(Row("/bin/true, with fork and exec", walls["plain"].text(1e6, 0), walls["ramson"].text(1e6, 0), "—",
                    f"{(walls['ramson'] - walls['plain']).median * 1e6:+.0f} µs"))
    commands = {"plain": [TRUE], "ramson": [machine.RAMSON, "run", "--", TRUE]}
    environment = machine.environment(RAMSON_LIBRARY=machine.LIBRARY)
    around = interleave(commands, plan.rounds(101, 21), lambda command: wall_seconds(command, environment)[0])
    added = (around["ramson"] - around["plain"]).median
    rows.append(Row("ramson run -- /bin/true", around["plain"].text(1e6, 0), around["ramson"].text(1e6, 0), "—",
                    f"{added * 1e6:+.0f} µs", "≤ 6,000 µs added", added <= 6e-3))
    note = "µs, wall time of one malloc of 64 MiB (a sample for sure), timed in the program."
    return Table("First samples", rows, note)
