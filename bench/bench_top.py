"""Watching: what `ramson top` costs, itself and the program that it watches, at 4 pictures a second in a terminal of 80 x 24."""

import fcntl
import os
import pathlib
import pty
import select
import struct
import subprocess
import termios
import time

import machine
from bench_bytes import stacks_in
from machine import say
from measure import MeasurementError, Series, run
from redis_server import SOCKET, Server
from stacks_program import build_stacks_program
from table import Row, Table

# A redis that samples often enough to have thousands of live samples.
REDIS_INTERVAL = 4 << 10
STACKS = (2_000, 10_000)
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
WARM_SECONDS = 6
LOOKS = 100


def tables(plan):
    if plan.is_check:
        return
    seconds, rounds = plan.count(20, 5), plan.rounds(5, 2)
    say("top: redis under load")
    rows, notes = [], []
    for what, (shares, looks, stacks) in [("redis-server under load", of_redis(seconds, rounds)),
                                          *((f"a server with {count:,} stacks, idle", of_stacks(count, seconds, rounds))
                                            for count in STACKS)]:
        rows.append(Row(f"the view of {what}", ramson=shares.text(100, 2) + "%", target="≤ 1%", is_met=shares.median <= 0.01))
        rows.append(Row("one look at it, without drawing", ramson=looks.text(1e3, 2) + " ms"))
        notes.append(f"{what}: {stacks:,} stacks")
    note = (f"Percent of one core, user and system, after {WARM_SECONDS} s, each over {seconds} s; 80 × 24, a picture every 250 ms, or less "
            f"often where a look takes more than 1.4 ms. {'; '.join(notes)}.")
    yield Table("Watching a running server", rows, note)


def of_redis(seconds, rounds):
    with Server(machine.ramson(REDIS_INTERVAL, RAMSON_MAX_OVERHEAD="off")) as server:
        client = subprocess.Popen(["redis-benchmark", "-s", str(SOCKET), "-q", "-c", "10", "-P", "8", "-r", "300000", "-d", "100",
                                   "-n", "1000000000", "-t", "set"],
                                  env=machine.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return measured(server.process.pid, seconds, rounds)
        finally:
            client.kill()
            client.wait()


def of_stacks(count, seconds, rounds):
    say(f"top: {count:,} stacks")
    server = subprocess.Popen([str(build_stacks_program()), str(count), "wait"], env=machine.ramson(1), stdout=subprocess.PIPE)
    try:
        if server.stdout.readline() != b"ready\n":
            raise MeasurementError("the program did not start")
        return measured(server.pid, seconds, rounds)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def measured(pid, seconds, rounds):
    shares = Series([share_of_core(pid, seconds) for _ in range(rounds)])
    return shares, Series([cost_of_a_look(pid) for _ in range(rounds)]), stacks_in(pid)


def cost_of_a_look(pid):
    """CPU seconds, with an object written instead of a picture drawn."""
    view = subprocess.Popen([str(machine.RAMSON), "top", str(pid), "--json", "--every", "20ms", "-n", "15"],
                            env=machine.environment(XDG_CACHE_HOME=machine.BUILT / "cache"), stdout=subprocess.PIPE)
    try:
        for _ in range(10):
            view.stdout.readline()
        before = cpu_seconds_of(view.pid)
        if not all(view.stdout.readline() for _ in range(LOOKS)):
            raise MeasurementError("ramson top --json ended")
        return (cpu_seconds_of(view.pid) - before) / LOOKS
    finally:
        view.kill()
        view.wait()
        view.stdout.close()


def share_of_core(pid, seconds):
    """CPU time of the view per second, while its pictures are read as a terminal would."""
    view, terminal = pty.fork()
    if view == 0:
        environment = machine.environment(TERM="xterm-256color", XDG_CACHE_HOME=machine.BUILT / "cache")
        os.execve(machine.RAMSON, [str(machine.RAMSON), "top", str(pid)], environment)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        drain(terminal, WARM_SECONDS)
        start, before = time.monotonic(), cpu_seconds_of(view)
        drawn = drain(terminal, seconds)
        spent = (cpu_seconds_of(view) - before) / (time.monotonic() - start)
        if drawn == 0:
            raise MeasurementError("ramson top drew nothing")
        os.write(terminal, b"q")
        drain(terminal, 2)
        return spent
    finally:
        os.close(terminal)
        os.waitpid(view, 0)


def drain(terminal, seconds):
    """Reads what is drawn for so long; returns the bytes."""
    deadline, count = time.monotonic() + seconds, 0
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([terminal], [], [], left)[0]:
            continue
        try:
            drawn = os.read(terminal, 1 << 16)
        except OSError:
            break
        count += len(drawn)
    return count


def cpu_seconds_of(pid):
    """CPU seconds of all threads of a process, also those that have ended."""
    fields = (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
