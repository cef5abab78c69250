"""Reading: `ramson report` on a running server with 10,000 distinct stacks, and naming the addresses of a big binary."""

import re
import shutil
import subprocess

import machine
from bench_bytes import stacks_in
from machine import say
from measure import MeasurementError, Series, run, wall_seconds
from stacks_program import build_stacks_program
from table import Row, Table

STACKS = 10_000
CACHE = machine.BUILT / "cache"


def tables(plan):
    if not plan.is_check:
        yield report_table(plan)
        yield symbols_table(plan)


def forget_symbols():
    shutil.rmtree(CACHE, ignore_errors=True)
    CACHE.mkdir(parents=True)


def report_table(plan):
    program = build_stacks_program()
    rounds = plan.rounds(9, 3)
    environment = machine.environment(XDG_CACHE_HOME=CACHE)
    say("report: 10,000 stacks of a running server")
    server = subprocess.Popen([str(program), str(STACKS), "wait"], env=machine.ramson(1), stdout=subprocess.PIPE)
    try:
        if server.stdout.readline() != b"ready\n":
            raise MeasurementError(f"{program} did not start")
        command = [machine.RAMSON, "report", server.pid]
        cold, warm, tree = [], [], []
        for _ in range(rounds):
            forget_symbols()
            cold.append(wall_seconds(command, environment)[0])
            warm.append(wall_seconds(command, environment)[0])
            tree.append(wall_seconds([*command, "--view", "tree"], environment)[0])
        found = stacks_in(server.pid)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    cold, warm, tree = Series(cold), Series(warm), Series(tree)
    rows = [
        Row("report PID, no symbols cached", ramson=cold.text(1e3, 0), target="< 1,000 ms", is_met=cold.median < 1),
        Row("report PID, symbols cached", ramson=warm.text(1e3, 0), target="< 200 ms", is_met=warm.median < 0.2),
        Row("report PID --view tree, symbols cached", ramson=tree.text(1e3, 0)),
    ]
    note = (f"ms, wall time. The export of this server has {found:,} stacks of 21 frames, 16 of them with an inlined one inside; "
            "full debug info.")
    return Table("Reading a running server", rows, note)


def symbols_table(plan):
    say("report: symbolizing")
    binary = machine.RAMSON
    listing = machine.output_of("nm", binary)
    addresses = "\n".join(line.split()[0] for line in listing.splitlines() if re.match(r"[0-9a-f]+ [tT] ", line)) + "\n"
    note = machine.output_of("readelf", "-n", binary)
    build_id = re.search(r"Build ID: ([0-9a-f]+)", note)
    command = [machine.MEASURE_SYMBOLS, binary, build_id.group(1) if build_id else "", CACHE]
    seconds, told = {"cold": [], "warm": []}, ""
    for _ in range(plan.rounds(5, 2)):
        forget_symbols()
        for state in seconds:
            told = run(command, machine.environment(), input=addresses).splitlines()[0]
            seconds[state].append(seconds_in(told))
    size = binary.stat().st_size / (1 << 20)
    rows = [Row(f"{state}", ramson=Series(values).text(1e3)) for state, values in seconds.items()]
    count = told.split(":")[0]
    return Table("Naming the addresses of a big binary", rows,
                 f"ms inside crates/symbols, the `ramson` command itself ({size:.0f} MiB): {count}.")


def seconds_in(line):
    """Seconds of a Duration that Rust prints at the end of a line."""
    number, unit = re.search(r"([\d.]+)(ns|µs|ms|s)$", line).groups()
    return float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
