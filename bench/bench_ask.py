"""Bytes that explain --ask predicts a trim to return, of jemalloc and tcmalloc, beside those it returns; heaps from fixed seeds."""

import json
import signal
import subprocess

import machine
from machine import say
from measure import MeasurementError
from table import Row, Table

HEAPS = machine.BUILT / "heaps"
MIB = 1 << 20
HEAP_MIB = 100
NEAR_SHARE, NEAR_BYTES = 0.2, 4 * MIB
NAMES = {machine.JEMALLOC: "jemalloc", machine.TCMALLOC: "tcmalloc"}


def ramson(*words):
    ended = subprocess.run([machine.RAMSON, *map(str, words), "--json"], capture_output=True, text=True, env=machine.environment())
    if ended.returncode:
        raise MeasurementError(ended.stderr.strip())
    return json.loads(ended.stdout)


def predicted_and_returned(allocator, seed):
    heap = subprocess.Popen([HEAPS, str(seed), str(HEAP_MIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            env=machine.environment(LD_PRELOAD=allocator))
    try:
        heap.stdout.readline()
        answer = ramson("explain", heap.pid, "--ask")
        levers = [advice["saving"]["bytes"] for advice in answer["advice"] if "ramson trim" in advice["action"]]
        return max(levers, default=0), ramson("trim", heap.pid)["rss_diff"]
    finally:
        heap.send_signal(signal.SIGKILL)
        heap.wait()


def tables(plan):
    if plan.is_check:
        return
    machine.compile_c(machine.PROGRAMS / "heaps.c", "heaps")
    count, rows = plan.count(200, 50), []
    for allocator, name in NAMES.items():
        say(f"ask: {name}")
        pairs = [predicted_and_returned(allocator, seed) for seed in range(1, count + 1)]
        near = sum(abs(predicted - returned) <= max(NEAR_SHARE * returned, NEAR_BYTES) for predicted, returned in pairs)
        worst = max(pairs, key=lambda pair: abs(pair[0] - pair[1]))
        rows.append(Row(f"{name}: heaps of {HEAP_MIB} MiB whose trim returned what --ask predicted, within 20% or 4 MiB",
                        ramson=f"{near} of {count}; worst: predicted {worst[0] / MIB:.1f} MiB, returned {worst[1] / MIB:.1f}",
                        target="all", is_met=near == count))
    yield Table("Predictions of --ask", rows)
