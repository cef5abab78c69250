"""The history: what recording 20 processes with 2,000 stacks each costs, what a day takes, how long a range over a month takes."""

import os
import pathlib
import shutil
import subprocess
import time

import machine
from machine import say
from measure import MeasurementError, run
from stacks_program import build_stacks_program
from table import Row, Table

PROCESSES = 20
STACKS = 2_000
# Samples per second of each simulated process: 10 MiB/s at 512 KiB, and 1 MiB/s.
RATE = 20
LOW_RATE = 2
SCRATCH = machine.BUILT / "history"


def tables(plan):
    if plan.is_check:
        return
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    try:
        yield table(plan)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


def table(plan):
    processes = plan.count(PROCESSES, 2)
    reading = cpu_of_recorder(plan)
    day = simulated(processes, 1, RATE)
    low = simulated(processes, 1, LOW_RATE)
    month = simulated(processes, 30, RATE)
    scale = PROCESSES / processes
    writing = day["cpu"] / 3600 * scale
    share = (reading + writing) * 100
    a_day = day["bytes"] * scale / 1e6
    a_low_day = low["bytes"] * scale / 1e6
    a_month = month["bytes"] * scale / 1e6
    rows = [
        Row("CPU of `ramson history`, percent of one core", ramson=f"{share:.2f}", target="≤ 1%", is_met=share <= 1),
        Row("of it reading and watching", ramson=f"{reading * 100:.2f}"),
        Row("of it comparing, compressing and writing", ramson=f"{writing * 100:.2f}"),
        Row(f"the history after a day, MB, at {LOW_RATE // 2} MiB/s allocated by each", ramson=f"{a_low_day:,.1f}", target="≤ 100",
            is_met=a_low_day <= 100),
        Row(f"the same at {RATE // 2} MiB/s", ramson=f"{a_day:,.1f}", target="≤ 100", is_met=a_day <= 100),
        Row(f"after a month, MB, at {RATE // 2} MiB/s", ramson=f"{a_month:,.1f}"),
        Row("slowest range in a month, ms", ramson=f"{month['slowest'] * 1e3:.0f}", target="≤ 500",
            is_met=month["slowest"] <= 0.5),
    ]
    told = f", scaled up from {processes}" if processes < PROCESSES else ""
    note = (f"{PROCESSES} processes with {STACKS:,} stacks of 20 frames each{told}, one snapshot each every 10 s. Reading is measured on running "
            f"programs that do nothing; the rest on a simulated clock, at 2 samples per MiB allocated, "
            f"nine in ten freed within a second, {month['live'] // processes:,} live samples each. A range is two moments read, subtracted, and the "
            "series between them; names are not looked up.")
    return Table("The history", rows, note)


def simulated(processes, days, rate):
    say(f"history: {days} days of {processes} simulated processes, {rate} samples per second each")
    database = SCRATCH / f"{days}-{rate}.db"
    out = run([machine.SIMULATE_HISTORY, database, "days", processes, STACKS, days, rate], machine.environment())
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    used, file_bytes, cpu, live = lines["result"]
    if int(file_bytes) < int(used) / 2:
        raise MeasurementError(f"{database} has {file_bytes} bytes and says that it uses {used}")
    return {"bytes": int(file_bytes), "cpu": float(cpu), "live": int(live), "slowest": float(lines["slowest"][0])}


def cpu_of_recorder(plan):
    """Share of one core, over some rounds of 10 s with 20 real processes."""
    say(f"history: recording {PROCESSES} processes")
    program = build_stacks_program()
    profiles = SCRATCH / "profiles"
    profiles.mkdir()
    environment = machine.ramson(1, RAMSON_DIR=profiles)
    servers = [subprocess.Popen([str(program), str(STACKS), "wait"], env=environment, stdout=subprocess.PIPE)
               for _ in range(PROCESSES)]
    recorder = None
    try:
        for server in servers:
            if server.stdout.readline() != b"ready\n":
                raise MeasurementError(f"{program} did not start")
        command = [str(machine.RAMSON), "history", *(str(server.pid) for server in servers), "-o", str(SCRATCH / "real.db")]
        recorder = subprocess.Popen(command, env=machine.environment(RAMSON_DIR=profiles))
        # The first round makes everything known.
        time.sleep(15)
        before, start = cpu_seconds(recorder.pid), time.monotonic()
        time.sleep(plan.count(60, 20))
        return (cpu_seconds(recorder.pid) - before) / (time.monotonic() - start)
    finally:
        for process in [*([recorder] if recorder else []), *servers]:
            process.kill()
            process.wait()
        for server in servers:
            server.stdout.close()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
