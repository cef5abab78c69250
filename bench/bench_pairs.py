"""The price of a malloc+free pair: instructions at 100 B, CPU time at 100 B, 16 KiB and 1 MiB, and recording everything."""

import resource

import machine
from machine import say
from measure import instructions, interleave, results_of, run
from table import Row, Table

LOOP = machine.BUILT / "loop"
# As in the program.
WARM_UP_BYTES = 64 << 20
# No thread of this loop allocates so much: what remains is the fast path alone.
NEVER = "512T"


def tables(plan):
    yield instruction_table(plan)
    if not plan.is_check:
        yield time_table(plan)
        yield everything_table(plan)


def variants(**extra):
    """Every variant of the loop that can be measured here; `extra` goes to the environment of those with ramson."""
    found = {
        "plain": machine.environment(),
        "pass-through": machine.environment(LD_PRELOAD=machine.BUILT / "passthrough.so"),
        "ramson": machine.ramson(**extra),
    } | machine.peers()
    if machine.has(machine.JEMALLOC):
        found["ramson over jemalloc"] = machine.ramson(over=machine.JEMALLOC, **extra)
    if machine.has(machine.TCMALLOC):
        found["ramson over tcmalloc"] = machine.ramson(over=machine.TCMALLOC, **extra)
    return found


# Each variant is compared with the allocator below it, without a profiler.
BASE = {"pass-through": "plain", "ramson": "plain", "ramson fast path": "plain", "jemalloc prof": "jemalloc",
        "tcmalloc prof": "tcmalloc", "ramson over jemalloc": "jemalloc", "ramson over tcmalloc": "tcmalloc"}


def instruction_table(plan):
    few, many = 10_000, plan.count(1_010_000, 210_000)
    per_pair = {}
    for name, environment in (variants() | {"ramson fast path": machine.ramson(NEVER)}).items():
        say(f"pairs: instructions, {name}")
        counts = [instructions([LOOP, "pairs", count, 100, 0], environment, "pairs") for count in (few, many)]
        per_pair[name] = (counts[1] - counts[0]) / (many - few)
    for name in ("plain", "ramson"):
        counts = [instructions([LOOP, "beside", count, 100, 0], variants()[name], "pairs") for count in (few, many)]
        per_pair[f"{name}, beside"] = (counts[1] - counts[0]) / (many - few)
    extra = {name: per_pair[name] - per_pair[base] for name, base in BASE.items() if name in per_pair}
    plain = f"{per_pair['plain']:.1f}"

    def row(what, name, target="—", is_met=None):
        return Row(what, plain, f"{per_pair[name]:.1f}", ratio=f"{extra[name]:+.2f}", target=target, is_met=is_met,
                   is_gate=is_met is not None)
    rows = [
        row("100 B, no sample due (the fast path)", "ramson fast path", "≤ +11", extra["ramson fast path"] <= 11.01),
        row("100 B, T = 512 KiB, samples included", "ramson"),
        Row("100 B, on a page with a live sample: every free looks it up", f"{per_pair['plain, beside']:.1f}",
            f"{per_pair['ramson, beside']:.1f}", ratio=f"{per_pair['ramson, beside'] - per_pair['plain, beside']:+.2f}"),
        Row("100 B, bare pass-through", plain, peers=f"{per_pair['pass-through']:.1f}", ratio=f"{extra['pass-through']:+.2f}"),
    ]
    for name in ("jemalloc", "tcmalloc"):
        if name in per_pair:
            rows.append(Row(f"100 B, {name}", f"{per_pair[name]:.1f} off", f"{per_pair[f'ramson over {name}']:.1f} over it",
                            f"{per_pair[f'{name} prof']:.1f} on",
                            f"ramson {extra[f'ramson over {name}']:+.2f}, its own {extra[f'{name} prof']:+.2f}"))
    note = "Two loop counts, their difference divided by the difference of the counts: nothing but the loop counts."
    return Table("A malloc+free pair, instructions", rows, note)


def time_table(plan):
    rows = []
    for size, label, count in ((100, "100 B", 5_000_000), (16 << 10, "16 KiB", 2_000_000), (1 << 20, "1 MiB", 200_000)):
        say(f"pairs: time, {label}")
        count = count // 4 if plan.is_quick else count
        series = interleave(variants(**limit_of(size)), plan.rounds(9, 3), lambda environment:
                            results_of(run([LOOP, "pairs", count, size, 0], environment))[0])
        rows += rows_of_size(size, label, series)
    beside = interleave({name: variants()[name] for name in ("plain", "ramson")}, plan.rounds(9, 3), lambda environment:
                        results_of(run([LOOP, "beside", 1_000_000, 100, 0], environment))[0])
    rows.append(Row("100 B, on a page with a live sample", beside["plain"].text(), beside["ramson"].text(),
                    ratio=f"{(beside['ramson'] - beside['plain']).median:+.1f} ns"))
    note = ("ns. 1 MiB is the worst case of every sampler: at T = 512 KiB 86 of 100 allocations are samples. "
            "Added: the median of what profiling adds to the same allocator without it.")
    return Table("A malloc+free pair, CPU time", rows, note)


def limit_of(size):
    """Environment for a size: 1 MiB is measured without an overhead target, with which fewer of its blocks are samples after 20 ms."""
    return machine.UNGOVERNED if size == 1 << 20 else {}


def rows_of_size(size, label, series):
    plain, ours = series["plain"], series["ramson"]
    added, ratio = ours - plain, ours / plain
    target, is_met = {
        100: ("≤ 1.5 ns added", added.median <= 1.5),
        16 << 10: ("≤ 1.4 ×", ratio.median <= 1.4),
        1 << 20: ("—", None),
    }[size]
    floor = series["pass-through"]
    rows = [Row(label, plain.text(), ours.text(), f"pass-through {floor.text()}",
                f"{ratio.median:.2f} ×, {added.median:+.1f} ns (pass-through {(floor - plain).median:+.1f})", target, is_met)]
    for name in ("jemalloc", "tcmalloc"):
        if name not in series:
            continue
        off, on, over = series[name], series[f"{name} prof"], series[f"ramson over {name}"]
        peer_added = (on - off).median
        is_judged = size == 1 << 20
        rows.append(Row(
            f"{label}, {name}", f"{off.text()} off", f"{over.text()} over it", f"{on.text()} on",
            f"added: ramson {added.median:+.1f}, over it {(over - off).median:+.1f}, its own {peer_added:+.1f}",
            "added and total < its own" if is_judged else "—",
            added.median < peer_added and ours.median < on.median if is_judged else None))
    return rows


def everything_table(plan):
    """T = 1 against heaptrack, which records every allocation too, partly in a second process."""
    say("pairs: recording everything")
    found = {"plain": machine.environment(), "ramson": machine.ramson(1)}
    if machine.has("heaptrack"):
        found["heaptrack"] = machine.environment()
    count = plan.count(4_000_000, 1_000_000)
    wrapper = {"heaptrack": ["heaptrack", "-o", machine.BUILT / "heaptrack"]}
    rows = []
    for size, label, depth in ((100, "100 B", 0), (100, "100 B, depth 30", 30), (16 << 10, "16 KiB", 0)):
        commands = {name: (wrapper.get(name, []) + [LOOP, "pairs", count, size, depth], environment)
                    for name, environment in found.items()}
        pairs = count + WARM_UP_BYTES // size
        both = interleave(commands, plan.rounds(5, 3), lambda command: three_times(*command, pairs))
        for index, clock in enumerate(("CPU of the process", "wall", "CPU of all processes")):
            series = {name: each.only(index) for name, each in both.items()}
            rows.append(everything_row(f"{label}, {clock}", series))
    note = ("ns per pair at T = 1. heaptrack compresses and writes in a second process: the wall time shows where the program "
            "waits for it; the CPU of all processes counts it (with heaptrack's start, some 30 ms).")
    return Table("Recording every allocation", rows, note)


def three_times(command, environment, pairs):
    """ns per pair: CPU and wall time inside the program, and the CPU time of everything that the command started."""
    def children_ns():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (usage.ru_utime + usage.ru_stime) * 1e9
    before = children_ns()
    inside = results_of(run(command, environment))
    return [*inside, (children_ns() - before) / pairs]


def everything_row(label, series):
    ours = (series["ramson"] / series["plain"]).median
    row = Row(label, series["plain"].text(), series["ramson"].text(), "heaptrack: not installed", f"{ours:.1f} ×",
              "< half of heaptrack's")
    if "heaptrack" in series:
        theirs = (series["heaptrack"] / series["plain"]).median
        row.peers, row.is_met = f"heaptrack {series['heaptrack'].text()}", ours < theirs / 2
        row.ratio += f", heaptrack {theirs:.1f} ×"
    return row
