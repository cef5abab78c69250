"""The price of one sample, warm: everything recorded (T = 1) minus recording off, per allocation."""

import machine
from machine import say
from measure import interleave, results_of, run
from table import Row, Table

LOOP = machine.BUILT / "loop"
DEPTHS = ((0, "shallow stack (4 frames)", 1000), (30, "depth 30, no frame pointers", 1500))


def tables(plan):
    if not plan.is_check:
        yield samples_table(plan)


def variants():
    """Environments in which nothing or everything is sampled."""
    found = {"plain": machine.environment(), "off": machine.ramson("off"), "all": machine.ramson(1)}
    if machine.has(machine.JEMALLOC):
        found["jemalloc"] = machine.jemalloc(False)
        every = "prof:true,prof_active:true,lg_prof_sample:0"
        found["jemalloc all"] = machine.environment(LD_PRELOAD=machine.JEMALLOC, MALLOC_CONF=every)
    if machine.has(machine.TCMALLOC):
        found["tcmalloc"] = machine.tcmalloc(False)
        found["tcmalloc all"] = machine.environment(LD_PRELOAD=machine.TCMALLOC, TCMALLOC_SAMPLE_PARAMETER=1)
    return found


def samples_table(plan):
    count = 100_000 if plan.is_quick else 400_000
    rounds = plan.rounds(7, 3)
    rows = []
    for depth, label, target_ns in DEPTHS:
        say(f"samples: {label}")
        pairs = interleave(variants(), rounds, lambda environment:
                           results_of(run([LOOP, "pairs", count, 100, depth], environment))[0])
        rows.append(row_of(f"{label}: malloc and free", pairs, target_ns))
        batches = interleave(variants(), rounds, lambda environment:
                             results_of(run([LOOP, "batch", count, 100, depth], environment)))
        for index, part in ((0, "malloc alone"), (1, "free alone")):
            only = {name: series.only(index) for name, series in batches.items()}
            rows.append(row_of(f"{label}: {part}, 1,000 live", only, None))
    note = ("ns per sample, CPU time; the same stack each time. The plain column is the allocation itself, ramson's is what a "
            "sample adds, the peers' what one of theirs adds (all of them at an interval of 1).")
    return Table("One sample, warm", rows, note)


def row_of(what, series, target_ns):
    ours = series["all"] - series["off"]
    peers = [f"{name} {(series[f'{name} all'] - series[name]).text(digits=0)}"
             for name in ("jemalloc", "tcmalloc") if name in series]
    return Row(what, series["plain"].text(), ours.text(digits=0), ", ".join(peers) or "not installed",
               f"off: {(series['off'] - series['plain']).median:+.1f} ns over plain",
               f"≤ {target_ns:,} ns" if target_ns else "—", ours.median <= target_ns if target_ns else None)
