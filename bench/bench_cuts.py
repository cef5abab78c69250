"""How often a program dies of SIGBUS when its profile is cut to nothing under it, which libramson cannot rule out (docs/internals/edge-cases.md)."""

import contextlib
import pathlib
import random
import signal
import subprocess
import tempfile
import time

import machine
import redis_server
from machine import say
from measure import MeasurementError
from table import Row, Table

# redis-benchmark and `loop` go on for longer than anybody watches.
ENDLESS = 10 ** 9
LOOP = [machine.BUILT / "loop", "pairs", ENDLESS, 100, 0]
WARM_SECONDS, LATEST_SECONDS = 0.3, 0.6
# An idle program meets its profile when it next takes a sample; a busy one by then.
WATCHED_SECONDS = 0.4


def tables(plan):
    if not plan.is_check:
        yield cuts_table(plan)


@contextlib.contextmanager
def looping(environment):
    with subprocess.Popen([str(part) for part in LOOP], env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def serving(environment):
    load = ["redis-benchmark", "-s", str(redis_server.SOCKET), "-t", "set", "-n", str(ENDLESS), "-P", "16", "-d", "16384", "-r", "5000"]
    # Its handlers of deadly signals would take their time to write a report.
    with redis_server.Server(environment, options=["--crash-log-enabled", "no"]) as server:
        with subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
            try:
                yield server.process
            finally:
                client.kill()


def cut(profiles):
    if len(profiles) != 1:
        raise MeasurementError(f"a program has {len(profiles)} profiles")
    profiles[0].chmod(0o600)
    with profiles[0].open("w"):
        pass


def deaths(program, interval, attempts):
    """How many of so many programs died."""
    died = 0
    for _ in range(attempts):
        with tempfile.TemporaryDirectory(dir=machine.BUILT) as directory:
            with program(machine.ramson(interval, RAMSON_DIR=directory)) as process:
                time.sleep(random.uniform(WARM_SECONDS, LATEST_SECONDS))
                cut(list(pathlib.Path(directory).glob(f"{process.pid}-*")))
                time.sleep(WATCHED_SECONDS)
                status = process.poll()
        if status not in (None, -signal.SIGBUS):
            raise MeasurementError(f"a program ended by itself, with status {status}")
        died += status is not None
    return died


def cuts_table(plan):
    attempts = plan.count(100, 30)
    rows = []
    for what, program, interval in [("redis-server that is sent SETs of 16 KiB, T = 512 KiB", serving, "512K"),
                                    ("redis-server that is sent SETs of 16 KiB, T = 1", serving, "1"),
                                    ("nothing but pairs of malloc and free, T = 1", looping, "1")]:
        say(f"cuts: {what}")
        rows.append(Row(what, ramson=f"{deaths(program, interval, attempts)} of {attempts} died"))
    note = "What `> FILE` does: root may, an owner must change the mode first, as is done here. Each program is new, and cut once."
    return Table("A profile that is cut to nothing while its program runs", rows, note)
