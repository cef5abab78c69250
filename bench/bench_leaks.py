"""Suspects: recall and false alarms of the leak analysis on simulated programs of known truth, over many seeds."""

import json

import machine
from machine import say
from measure import run
from table import Row, Table

# The traffic for which the promise is given; with less of it there are fewer samples, and how many are found is only reported.
BUSY_MIB = 20
FEWEST_FOUND = 1.0
MOST_FALSE_ALARMS = 0.01
# A cache is never called growing after its plateau.
CACHES = ("Cache", "FifoCache")
WITHIN = "found within 10 min of simulated traffic"


def tables(plan):
    # Nothing is timed: the same seeds give the same counts on every machine.
    seeds = plan.count(100, 20)
    say(f"leaks: {seeds} seeds of each program")
    lines = run([machine.LEAKS_TRUTH, seeds], machine.environment()).splitlines()
    yield Table("Suspects of a leak, by program, traffic and sampling interval", [row for line in lines for row in rows(json.loads(line))],
                f"{seeds} seeds; leaks are 1 % of the traffic (one thread of 200: 0.5 %); judged every minute from the "
                "2nd to the 15th, caches and sawteeth from a tenth after their plateau or first tooth on.")


def rows(of):
    mib = of["traffic"] / (1 << 20)
    is_busy = mib >= BUSY_MIB
    what = f"{of['program']}, {mib:g} MiB/s, T = {of['interval_bytes'] >> 10} KiB"
    if of["leaks"]:
        share = of["found"] / of["seeds"]
        yield Row(f"{what}: {WITHIN}", ramson=f"{of['found']} of {of['seeds']}", ratio=f"{share:.1%}",
                  target="all" if is_busy else "—", is_met=share >= FEWEST_FOUND if is_busy else None, is_gate=is_busy)
    if of["judged"]:
        share = of["false_alarms"] / of["judged"]
        most = 0 if of["program"] in CACHES else MOST_FALSE_ALARMS
        yield Row(f"{what}: false alarms", ramson=f"{of['false_alarms']} of {of['judged']} judgements",
                  ratio=f"{share:.2%}, {of['alarmed_seeds']} seeds with any", target=f"≤ {most:.0%}",
                  is_met=share <= most, is_gate=True)
