"""The first six rows of docs/internals/cost.md: what profiling adds, ramson's beside that of jemalloc, tcmalloc and heaptrack.

Each profiler is compared with the same program over the same allocator without it, in interleaved rounds; the first three at
512 KiB. heaptrack records every allocation, and its cost is that of all processes it starts.
"""

import bench_bytes
import bench_children
import bench_pairs
import machine
import redis_server
from machine import say
from measure import Series, interleave, results_of, run

HEAD = ["what", "plain", "ramson", "jemalloc", "tcmalloc", "heaptrack"]
NONE = "–"
# Base that each profiler is compared with.
BASE = {"ramson": "plain", "jemalloc prof": "jemalloc", "tcmalloc prof": "tcmalloc", "heaptrack": "plain"}
MIB = 1 << 20


def profilers(every=False, **extra):
    """The plain program and each profiler with its base; `every`: at an interval of 1. `extra` goes to ramson's environment."""
    found = {"plain": machine.environment(), "ramson": machine.ramson(1 if every else None, **extra)} | machine.peers()
    if every and "jemalloc prof" in found:
        found["jemalloc prof"] = found["jemalloc prof"] | {"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:0"}
    if every and "tcmalloc prof" in found:
        found["tcmalloc prof"] = found["tcmalloc prof"] | {"TCMALLOC_SAMPLE_PARAMETER": "1"}
    return found


def with_heaptrack(command, environments):
    """(command, environment) of each, and of heaptrack if it is there."""
    commands = {name: (command, environment) for name, environment in environments.items()}
    if machine.has("heaptrack"):
        commands["heaptrack"] = (["heaptrack", "-o", machine.BUILT / "heaptrack", *command], machine.environment())
    return commands


def pairs(plan, size, depth, count, every):
    """Nanoseconds of CPU for a malloc and its free."""
    say(f"cost: malloc and free of {size} bytes{', every one recorded' if every else ''}")
    count = count // 4 if plan.is_quick else count
    commands = with_heaptrack([bench_pairs.LOOP, "pairs", count, size, depth], profilers(every, **bench_pairs.limit_of(size)))
    total = count + bench_pairs.WARM_UP_BYTES // size
    both = interleave(commands, plan.rounds(9, 3), lambda command: bench_pairs.three_times(*command, total))
    return {name: series.only(2 if name == "heaptrack" else 0) for name, series in both.items()}


def resident(plan):
    """Bytes of RSS of a program that holds 10 million blocks."""
    say("cost: 10 million blocks")
    commands = with_heaptrack([bench_bytes.OBJECTS, 10_000_000, 100], profilers())
    both = interleave(commands, plan.rounds(3, 1), lambda command: results_of(run(*command)))
    return {name: series.only(0) for name, series in both.items()}


def redis_requests(plan):
    """Instructions per SET. The program is linked with jemalloc; ramson is measured over glibc's malloc."""
    requests = plan.count(160_000, 64_000)
    over_glibc, over_jemalloc = redis_server.over_glibc(), redis_server.over_jemalloc()
    variants = over_glibc | {"jemalloc": over_jemalloc["plain"], "jemalloc prof": over_jemalloc["jemalloc prof"]}
    counts = {}
    for name, environment in variants.items():
        say(f"cost: redis SET, {name}")
        counts[name] = Series(redis_server.counted_per_request(environment, requests)[0]
                              for _ in range(plan.rounds(3, 1) if name in ("plain", "ramson") else 1))
    return counts


def builds(plan):
    """Seconds of CPU of make and all that it starts."""
    say("cost: make")
    return interleave(profilers(), plan.rounds(11, 3), bench_children.make_objects)


# Name of each row, how it is measured, how the plain program's figure and what is added are printed.
ROWS = [
    ("malloc + free, 100 B", lambda plan: pairs(plan, 100, 0, 5_000_000, False), ("ns", 1, 1), None),
    ("malloc + free, 1 MiB; 86 of 100 are samples", lambda plan: pairs(plan, 1 << 20, 0, 200_000, False), ("ns", 1, 0), None),
    ("`--interval 1`, malloc + free of 100 B at a depth of 30", lambda plan: pairs(plan, 100, 30, 400_000, True), ("ns", 1, 0), None),
    ("RSS, 10 million live blocks of 100 B", resident, ("MiB", 1 / MIB, 1), None),
    ("redis-server, instructions for a SET", redis_requests, ("", 1, 0), 2),
    ("short processes, CPU of `make -j2` of C files", builds, ("s", 1, 2), 1),
]


def table(plan):
    """The rows as Markdown."""
    rows = [[what, *cells(measured(plan), unit, percent_digits)] for what, measured, unit, percent_digits in ROWS]
    return markdown([HEAD, *rows])


def markdown(rows):
    """The first row names the columns."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def cells(series, unit, percent_digits):
    """The plain program's, then what each profiler adds."""
    name, scale, digits = unit
    shown = [spaced(series["plain"].text(scale, digits), name)]
    for profiler, base in BASE.items():
        if profiler not in series or base not in series:
            shown.append(NONE)
        elif percent_digits is None:
            shown.append(spaced(added(series[profiler] - series[base], scale, digits), name))
        else:
            shown.append(spaced(added(Series(ratio - 1 for ratio in ratios(series[profiler], series[base])), 100, percent_digits), "%"))
    return shown


def ratios(on, off):
    """Ratios of the rounds; if one was measured more often, ratios to the median of the other."""
    if len(on.values) == len(off.values):
        return (on / off).values
    return [value / off.median for value in on.values]


def added(series, scale, digits):
    """`+0.7 (0.5–0.9)`; without a range where there is one value only."""
    low, high = min(series.values) * scale, max(series.values) * scale
    text = f"{series.median * scale:+,.{digits}f}"
    return text if len(series.values) == 1 else f"{text} ({low:,.{digits}f} to {high:,.{digits}f})"


def spaced(text, unit):
    """The unit before the range."""
    number, _, interval = text.partition(" ")
    parts = [number + unit, interval] if unit == "%" else [number, unit, interval]
    return " ".join(part for part in parts if part)
