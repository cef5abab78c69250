"""How long a sample waits for a disk that is busy: while the kernel writes a page of the profile back, a store to it waits."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile

import machine
from machine import say
from measure import interleave, results_of, run
from table import Row, Table

PACED = machine.BUILT / "paced"
WRITTEN_MIB = 3_000
MEMORY = pathlib.Path("/dev/shm")


def tables(plan):
    if not plan.is_check:
        machine.compile_c(machine.PROGRAMS / "paced.c", "paced")
        yield stalls_table(plan)


@contextlib.contextmanager
def busy_machine():
    """A disk that is written to and synced, and processors that are busy with less important work: the kernel's own threads wait with a page."""
    with tempfile.TemporaryDirectory(dir=machine.BUILT) as directory:
        writes = f"while dd if=/dev/zero of=written bs=1M count={WRITTEN_MIB} status=none; do sync; done"
        scripts = [writes] + ["while :; do :; done"] * os.cpu_count()
        workers = [subprocess.Popen(["nice", "sh", "-c", script], cwd=directory, start_new_session=True) for script in scripts]
        try:
            yield
        finally:
            for worker in workers:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


def stalls_table(plan):
    seconds, rounds = plan.count(30, 20), plan.rounds(5, 1)
    rows = []
    with tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        variants = {"plain": machine.environment(), "disk": machine.ramson(), "memory": machine.ramson(RAMSON_DIR=memory)}
        say("stalls")
        with busy_machine():
            series = interleave(variants, rounds, lambda environment: results_of(run([PACED, seconds], environment)))
    for index, name in ((1, "pairs over 1 ms"), (2, "pairs over 10 ms"), (3, "longest pair, ms")):
        scale, digits = (1e-3, 1) if index == 3 else (1, 0)
        plain, disk, tmpfs = (series[variant].only(index).text(scale, digits) for variant in variants)
        rows.append(Row(name, plain, disk, peers=f"profile on tmpfs {tmpfs}"))
    note = (f"One thread, a pair of malloc and free of 1 MiB every 200 µs for {seconds} s, nine of ten are samples: some {seconds * 3_500:,} pairs. Beside it "
            f"{WRITTEN_MIB:,} MiB are written to the disk of the profile and sync(1) is called, again and again, and a niced loop keeps each processor busy.")
    return Table("Waiting for a busy disk", rows, note)
