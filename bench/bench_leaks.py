"""Suspects: precision and recall on a labelled set of simulated programs and on real ones, beside what others would name; recall and
false alarms minute by minute on nine simulated programs over many seeds."""

import json
import tempfile
import pathlib

import leaks_programs
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
# On the labelled set, and from how many unfreed samples on recall is counted.
LEAST_PRECISION, LEAST_RECALL, LEAST_SAMPLES = 0.95, 0.9, 80
PEERS = {"memleak": "memleak", "heaptrack": "heaptrack's leaked total", "jemalloc": "jemalloc's diff"}
MINUTES = [1, 10, 60]
WITHIN = "found within 10 min of simulated traffic"


def tables(plan):
    yield labelled(plan)
    if not plan.is_check:
        yield real(plan)
    # Nothing is timed: the same seeds give the same counts on every machine.
    seeds = plan.count(100, 20)
    say(f"leaks: {seeds} seeds of each program")
    lines = run([machine.LEAKS_TRUTH, seeds], machine.environment()).splitlines()
    yield Table("Suspects of a leak, by program, traffic and sampling interval", [row for line in lines for row in rows(json.loads(line))],
                f"{seeds} seeds; leaks are 1% of the traffic (one thread of 200: 0.5%); judged every minute from the "
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


def labelled(plan):
    seeds = plan.count(10, 2)
    say(f"leaks: {seeds} seeds of the labelled set")
    found = [json.loads(line) for line in run([machine.LEAKS_LABELLED, seeds], machine.environment()).splitlines()]
    rows = [row for one in found for row in of_set(one)] + together(found)
    return Table("Leak suspects on the labelled set, by sampling interval and time of observation", rows,
                 f"36 leaking and 38 other programs, {seeds} seeds each; one minute is judged with --min-age 15s. Precision counts "
                 "what has shown its bound for a tenth of the time it took; beside it, all. Peers: precision and recall of the "
                 "functions that their rules name, of the same programs.")


def of_set(found):
    what = f"T = {found['interval_bytes'] >> 10} KiB, {found['minutes']} min"
    right, wrong, filling = found["right"], found["wrong"], found["filling"]
    named = ", ".join(f"{text} {share(found[peer]['right'], found[peer]['named'])}, {share(found[peer]['right'], found['leaking'])}"
                      for peer, text in PEERS.items())
    yield Row(f"{what}: precision", ramson=share(right, right + wrong - filling), peers=named,
              ratio=f"with what still fills {share(right, right + wrong)}")
    by_samples = ", ".join(f"from {count['samples']}: {count['found']} of {count['leaks']}" for count in found["recall"])
    yield Row(f"{what}: recall from {LEAST_SAMPLES} unfreed samples", ramson=share(*enough([found])), ratio=by_samples)


def together(all_found):
    """The promise, over all intervals and times."""
    right, wrong, filling = (sum(found[key] for found in all_found) for key in ("right", "wrong", "filling"))
    found, leaks = enough(all_found)
    settled = right + wrong - filling
    return [Row("all: precision", ramson=share(right, settled), ratio=f"with what still fills {share(right, right + wrong)}",
                target=f"≥ {LEAST_PRECISION:.0%}", is_met=right >= LEAST_PRECISION * settled, is_gate=True),
            Row(f"all: recall from {LEAST_SAMPLES} unfreed samples", ramson=share(found, leaks), ratio=f"{found} of {leaks}",
                target=f"≥ {LEAST_RECALL:.0%}", is_met=found >= LEAST_RECALL * leaks, is_gate=True)]


def enough(all_found):
    """Leaks with enough samples that are found, and all of them."""
    counts = [count for found in all_found for count in found["recall"] if count["samples"] >= LEAST_SAMPLES]
    return sum(count["found"] for count in counts), sum(count["leaks"] for count in counts)


def real(plan):
    minutes = MINUTES[:plan.count(3, 2)]
    say(f"leaks: real programs for {minutes[-1]} min")
    rows = []
    with tempfile.TemporaryDirectory(prefix="leaks-") as directory:
        for program, at, suspects in leaks_programs.observe(pathlib.Path(directory), minutes):
            right = [leaks_programs.is_right(program, frames) for frames in suspects]
            is_met = all(right) and any(right) == bool(program.leak)
            rows.append(Row(f"{program.name}, {at} min", ramson=f"{len(suspects)} named, {sum(right)} of them leaks",
                            target="its leak" if program.leak else "none", is_met=is_met if at > 1 else None))
    return Table("Leak suspects of real programs", rows, f"At {leaks_programs.INTERVAL_BYTES >> 10} KiB.")


def share(part, whole):
    return f"{part / whole:.1%}" if whole else "—"
