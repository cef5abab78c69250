"""Costs of a look at a process: `ramson explain` on heaps of 100-byte blocks, and what the process looks like afterwards."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import machine
from machine import say
from measure import MeasurementError, Series
from table import Row, Table

MOST_MS_PER_GIB = 50
MOST_OWN_MIB = 200
MOST_SECONDS = 60
GIB = 1 << 30
MIB = 1 << 20
# Share of the blocks that is freed, in percent; and whether blocks are freed at random (0) or in runs of some thousand (1).
HEAPS = {"all live": (0, 0), "1% freed at random": (1, 0), "half freed at random": (50, 0), "half freed, in runs": (50, 1)}


def tables(plan):
    gib = plan.count(2, 1)
    program = machine.compile_c(machine.PROGRAMS / "blocks.c", "blocks")
    empty = look_at([program, "0", "0", "0"], plan)
    rows = []
    for name, (freed, in_runs) in HEAPS.items():
        say(f"explain: {gib} GiB, {name}")
        found = look_at([program, gib * GIB // 112, freed, in_runs], plan)
        walked = look_at([program, gib * GIB // 112, freed, in_runs], plan, "--exact")
        cpu = Series((a - b) / gib * 1000 for a, b in zip(found.cpu.values, empty.cpu.values, strict=True))
        exact = Series((a - b) / gib * 1000 for a, b in zip(walked.cpu.values, empty.cpu.values, strict=True))
        rows.append(Row(f"{name}: CPU time, ms per GiB", ramson=cpu.text(), peers=f"--exact {exact.text()}",
                        target=f"≤ {MOST_MS_PER_GIB}", is_met=cpu.median <= MOST_MS_PER_GIB))
        rows.append(Row(f"{name}: own memory, MiB", ramson=f"{found.own_bytes / MIB:.1f}", peers=f"--exact {walked.own_bytes / MIB:.1f}",
                        target=f"≤ {MOST_OWN_MIB}", is_met=max(found.own_bytes, walked.own_bytes) <= MOST_OWN_MIB * MIB, is_gate=True))
        rows.append(Row(f"{name}: the program's RSS grew, bytes", ramson=f"{max(found.grown, walked.grown)}", target="0",
                        is_met=max(found.grown, walked.grown) == 0, is_gate=True))
        rows.append(Row(f"{name}: free bytes, off mallinfo2's, of the heap", ramson=f"{found.error:.3%}", peers=f"--exact {walked.error:.3%}",
                        target="≤ 1%", is_met=max(found.error, walked.error) <= 0.01, is_gate=True))
    yield Table("A look at a process (`ramson explain`)", rows,
                f"blocks of 100 bytes, {gib} GiB of them; user and system time of the whole command, less that of a look at an empty "
                "program; --exact walks every chunk.")


class Look:
    """Costs and results of looks at one program."""

    def __init__(self):
        self.cpu, self.own_bytes, self.grown, self.error = None, 0, 0, 0.0


def look_at(command, plan, *options):
    look = Look()
    environment = machine.environment()
    with subprocess.Popen([str(part) for part in command], env=environment, stdout=subprocess.PIPE, text=True) as program:
        try:
            said = re.match(r"free (\d+) of (\d+)", program.stdout.readline())
            if not said:
                raise MeasurementError(f"{command}: said nothing")
            free, taken = int(said.group(1)), int(said.group(2))
            until_it_sleeps(program.pid)
            before = rss_bytes(program.pid)
            seconds = []
            for _ in range(plan.rounds(7, 3)):
                text, spent, own = explain(program.pid, options, environment)
                seconds.append(spent)
                look.own_bytes = max(look.own_bytes, own)
            look.cpu = Series(seconds)
            look.grown = max(0, rss_bytes(program.pid) - before)
            found = sum(int(bytes) for bytes in re.findall(r'"free_bytes":(\d+),"free_page_bytes"', text))
            look.error = abs(found - free) / taken if taken else 0.0
        finally:
            program.send_signal(signal.SIGKILL)
    return look


def explain(pid, options, environment):
    """The object that it prints, its CPU seconds and its peak RSS."""
    output = machine.BUILT / "explain.json"
    with open(output, "w") as standard_output:
        child = subprocess.Popen([str(machine.RAMSON), "explain", str(pid), "--json", *options], env=environment, stdout=standard_output)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise MeasurementError(f"ramson explain {pid}: exit {child.returncode}")
    return output.read_text(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def until_it_sleeps(pid):
    """Until then it maps pages of the C library itself."""
    deadline = time.monotonic() + MOST_SECONDS
    while pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "S":
        if time.monotonic() > deadline:
            raise MeasurementError(f"process {pid}: does not sleep")
        time.sleep(0.01)


def rss_bytes(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()
