"""Bytes: resident memory of 10 million live objects, and the size of a profile file."""

import json
import os

import machine
from machine import say
from measure import interleave, results_of, run
from stacks_program import build_stacks_program
from table import Row, Table

MIB = 1 << 20
OBJECTS = machine.BUILT / "objects"
FILE_STACKS = 1000
FILE_TARGET_BYTES = 4 * MIB
BOUND_BYTES = MIB


def tables(plan):
    yield memory_table(plan)
    yield file_table()


def memory_table(plan):
    say("bytes: 10 million objects")
    variants = {"plain": machine.environment(), "ramson": machine.ramson()} | machine.peers()
    both = interleave(variants, plan.rounds(3, 1), lambda environment:
                      results_of(run([OBJECTS, 10_000_000, 100], environment)))
    rss = {name: series.only(0) for name, series in both.items()}
    added = {name: (rss[name] - rss[base]).median for name, base in
             (("ramson", "plain"), ("jemalloc prof", "jemalloc"), ("tcmalloc prof", "tcmalloc")) if name in rss}
    parts = {part: (both["ramson"].only(index) - both["plain"].only(index)).median / MIB
             for index, part in ((1, "anonymous"), (2, "file"))}
    limit = 4 * MIB + 0.0005 * rss["plain"].median
    peers = ", ".join(f"{name} {added[name] / MIB:+.1f}" for name in added if name != "ramson")
    row = Row("10 million live objects of 100 B, RSS in MiB", rss["plain"].text(1 / MIB), rss["ramson"].text(1 / MIB),
              peers or "not installed",
              f"{added['ramson'] / MIB:+.2f} MiB ({', '.join(f'{part} {mib:+.2f}' for part, mib in parts.items())})",
              f"≤ +{limit / MIB:.2f} MiB (4 MiB + 0.05%)", added["ramson"] <= limit, is_gate=True)
    return Table("Memory in the program", [row])


def file_table():
    say("bytes: profile file")
    program = build_stacks_program()
    rows = []
    size, found = profile_of(program, FILE_STACKS)
    rows.append(Row(f"{FILE_STACKS:,} distinct stacks, each with a live sample", ramson=f"{size / MIB:.2f} MiB",
                    ratio=f"{found:,} stacks in the export", target=f"≤ {FILE_TARGET_BYTES / MIB:.0f} MiB, none lost",
                    is_met=size <= FILE_TARGET_BYTES and found >= FILE_STACKS, is_gate=True))
    size, found = profile_of(program, 100_000, RAMSON_MAX_FILE=BOUND_BYTES)
    rows.append(Row("100,000 distinct stacks, RAMSON_MAX_FILE=1M", ramson=f"{size / MIB:.2f} MiB",
                    ratio=f"{found:,} stacks in the export", target=f"≤ {BOUND_BYTES / MIB:.0f} MiB",
                    is_met=size <= BOUND_BYTES and found > 0, is_gate=True))
    return Table("The profile file, allocated blocks (st_blocks · 512)", rows, "T = 1; the program has run to its end.")


def profile_of(program, stacks, **extra):
    """Allocated bytes of the profile that the program leaves, and the number of stacks that an export of it has."""
    path = machine.BUILT / "stacks.ramson"
    path.unlink(missing_ok=True)
    run([program, stacks], machine.ramson(1, RAMSON_OUTPUT=path, RAMSON_KEEP=1, **extra))
    size = os.stat(path).st_blocks * 512
    found = stacks_in(path)
    path.unlink()
    return size, found


def stacks_in(source):
    exported = json.loads(run([machine.RAMSON, "export", source, "-f", "json"], machine.environment()))
    return len(exported["stacks"])
