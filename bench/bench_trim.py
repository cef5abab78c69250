"""Costs of periodic trims for the program: latencies with and without `run --trim-every`, and what came back."""

import json
import random
import signal
import socket
import subprocess
import time

import machine
import redis_server
from machine import say
from measure import MeasurementError, interleave, results_of, run
from table import Row, Table

LATENCY = machine.BUILT / "latency"
LOG = machine.BUILT / "trims.json"
PERIOD = "500ms"
WITH = ["--trim-every", PERIOD, "--trim-log", LOG]
VARIANTS = {"without": [], "with": WITH}
THREADS = 2
# Set before so many requests that are measured, and deleted but for every hundredth, which lies among what was freed.
KEYS, REQUESTS_A_ROUND, KEPT_EVERY = 20_000, 10_000, 100
# Sizes that glibc does not keep in the caches of threads.
LEAST_VALUE_BYTES, MOST_VALUE_BYTES = 1_100, 3_000
# Commands sent before their answers are read.
PIPELINE = 500


def tables(plan):
    if plan.is_check:
        return
    LOG.unlink(missing_ok=True)
    machine.compile_c(machine.PROGRAMS / "latency.c", "latency", "-pthread")
    note = (f"Both under `ramson run`; with: `--trim-every {PERIOD}`. Of redis the latency of a request as one client sees it, requests one after the other, "
            f"half of them setting a value; before every {REQUESTS_A_ROUND:,} of them, {KEYS:,} values are set and, but for every hundredth, deleted. "
            "Of the threads, of one malloc or free.")
    yield Table("Latency under periodic trims", [*malloc_rows(plan), *redis_rows(plan)], note)


def rows_of(what, both, scale, unit, trims):
    rows = []
    for index, name in enumerate(("median", "p99", "p99.9", "longest")):
        plain, ours = both["without"].only(index), both["with"].only(index)
        ratio = (ours / plain).median
        rows.append(Row(f"{what}: {name}, {unit}", plain.text(scale), ours.text(scale), ratio=f"{ratio:.2f}"))
    rows.append(Row(f"{what}: trims, MiB given back in all", "0", trims))
    return rows


def trims():
    """How many there were since the last question, and what they gave."""
    lines = [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []
    LOG.unlink(missing_ok=True)
    done = [line["rss_diff"] for line in lines if line["rss_diff"] is not None]
    return f"{len(done)}, {sum(done) / (1 << 20):,.0f}"


def under_ramson(flags, *command, **environment):
    """The command's arguments and environment."""
    command = [machine.RAMSON, "run", *flags, "--", *command]
    return [str(part) for part in command], machine.environment(RAMSON_LIBRARY=machine.LIBRARY, **environment)


def malloc_rows(plan):
    say("trim: threads that allocate")
    seconds = plan.count(10, 4)

    def measure(flags):
        command, environment = under_ramson(flags, LATENCY, THREADS, seconds)
        return results_of(run(command, environment))

    both = interleave(VARIANTS, plan.rounds(5, 3), measure)
    return rows_of(f"{THREADS} threads, malloc and free", both, 1e-3, "µs", trims())


def redis_rows(plan):
    if not redis_server.is_installed():
        return []
    say("trim: redis on glibc")
    requests = plan.count(120_000, 40_000)
    both = interleave(VARIANTS, plan.rounds(5, 3), lambda flags: redis_latencies(flags, requests))
    return rows_of("redis on glibc, SET and GET", both, 1e-3, "µs", trims())


def redis_latencies(flags, requests):
    """Median, p99, p99.9 and the longest, ns."""
    path = redis_server.SOCKET
    path.unlink(missing_ok=True)
    command, environment = under_ramson(flags, "redis-server", *redis_server.OPTIONS, LD_PRELOAD=machine.C_LIBRARY)
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = connected(path, server)
        times = sorted(times_of(client, requests))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(redis_server.START_SECONDS)
    return [times[len(times) // 2], times[len(times) * 99 // 100], times[len(times) * 999 // 1000], times[-1]]


def connected(path, server):
    deadline = time.monotonic() + redis_server.START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(str(path))
            return client
        except OSError:
            client.close()
            time.sleep(0.02)
    raise MeasurementError("redis-server did not start under ramson run")


def times_of(client, requests):
    chance = random.Random(1)
    answers = client.makefile("rb")
    for number in range(requests):
        if number % REQUESTS_A_ROUND == 0:
            fragment(client, answers, chance)
        key = b"key:%d" % chance.randrange(KEYS)
        request = command(b"GET", key) if number % 2 else command(b"SET", key, value(chance))
        begin = time.perf_counter_ns()
        client.sendall(request)
        answer = answers.readline()
        if answer.startswith(b"$") and answer != b"$-1\r\n":
            answers.read(int(answer[1:]) + 2)
        yield time.perf_counter_ns() - begin
        check(answer)


def fragment(client, answers, chance):
    """Leaves some tens of MB free between values that stay."""
    for first in range(0, KEYS, PIPELINE):
        keys = range(first, first + PIPELINE)
        client.sendall(b"".join(command(b"SET", b"key:%d" % key, value(chance)) for key in keys))
        for _ in keys:
            check(answers.readline())
    client.sendall(command(b"DEL", *(b"key:%d" % key for key in range(KEYS) if key % KEPT_EVERY)))
    check(answers.readline())


def value(chance):
    return b"x" * chance.randrange(LEAST_VALUE_BYTES, MOST_VALUE_BYTES)


def check(answer):
    if not answer or answer.startswith(b"-"):
        raise MeasurementError(f"redis-server answers {answer!r}")


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
