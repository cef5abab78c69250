"""Short processes: one that is forked and ends soon, a server that forks for each connection, builds, shell scripts."""

import pathlib
import re
import socket
import subprocess
import tempfile

import machine
from busy_programs import Postgres, Program, short_directory, wait_for
from machine import say
from measure import MeasurementError, cpu_seconds, interleave, interval_of, results_of, run
from table import Row, Table

CHILDREN = machine.BUILT / "children"
EMPTY = machine.BUILT / "empty.so"
CHILD_BYTES = 2_000_000
MOST_CALLS, MOST_FAULTS, MOST_SHARE = 8, 15, 0.03
SERVER = """
import json, os, signal, socketserver, sys
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        count = int(self.rfile.readline())
        self.wfile.write(json.dumps([{"number": n, "text": "x" * 100} for n in range(count)]).encode())
class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 100
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
cache = [bytes(1000) for _ in range(20000)]
Server("fork.sock", Answer).serve_forever()
"""
REQUEST_ROWS = 2000


class Forking(Program):
    """Python's own ForkingMixIn: a process for each request, as CGI has it. Each makes some 2 MB."""
    NEEDS = ("/usr/bin/python3",)

    def __init__(self, requests):
        self.requests = requests

    def command(self, directory):
        self.socket = directory / "fork.sock"
        (directory / "server.py").write_text(SERVER)
        return ["/usr/bin/python3", "server.py"]

    def begin(self, environment, directory):
        super().begin(environment, directory)
        wait_for(self.socket.exists, self.process)

    def work(self):
        for _ in range(self.requests):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(self.socket))
                client.sendall(b"%d\n" % REQUEST_ROWS)
                while client.recv(1 << 16):
                    pass

    def stop(self):
        self.process.terminate()


def tables(plan):
    if plan.is_check:
        return
    machine.compile_c(machine.PROGRAMS / "children.c", "children")
    (machine.BUILT / "empty.c").write_text("")
    machine.compile_c(machine.BUILT / "empty.c", "empty.so", "-shared", "-fPIC")
    yield Table("Short processes", [*forked_rows(plan), *program_rows(plan)],
                "CPU of the processes together, of ramson over plain: mean with its 95% interval.")


def forked_rows(plan):
    """One forked child that allocates 2 MB, of which a few blocks are samples."""
    say("children: a forked child")
    count = plan.count(500, 100)
    variants = {"plain": machine.environment(), "ramson": machine.ramson()}
    calls = {name: calls_of_child(environment) for name, environment in variants.items()}
    both = interleave(variants, plan.rounds(11, 5), lambda environment: results_of(run([CHILDREN, count, CHILD_BYTES], environment)))
    faults = {name: series.only(0).median / count for name, series in both.items()}
    cpu = {name: series.only(1) for name, series in both.items()}
    added = (cpu["ramson"] - cpu["plain"]).text(1 / count)
    more_calls, more_faults = (now["ramson"] - now["plain"] for now in (calls, faults))
    return [
        Row("forked child of 2 MB: system calls", f"{calls['plain']:.1f}", f"{calls['ramson']:.1f}", ratio=f"{more_calls:+.1f}",
            target=f"≤ +{MOST_CALLS}", is_met=more_calls <= MOST_CALLS),
        Row("its page faults", f"{faults['plain']:.1f}", f"{faults['ramson']:.1f}", ratio=f"{more_faults:+.1f}",
            target=f"≤ +{MOST_FAULTS}", is_met=more_faults <= MOST_FAULTS),
        Row("its CPU time, µs", cpu["plain"].text(1 / count), cpu["ramson"].text(1 / count), ratio=f"{added} µs"),
    ]


def calls_of_child(environment):
    """System calls of one more child, its fork and its end included."""
    few, many = (all_calls([CHILDREN, count, CHILD_BYTES], environment) for count in (10, 60))
    return (many - few) / 50


def all_calls(command, environment):
    with tempfile.NamedTemporaryFile() as counts:
        # Only the program is to have the preload.
        preload = [f"-E{name}={value}" for name, value in environment.items() if name == "LD_PRELOAD"]
        run(["strace", "-f", "-c", "-o", counts.name, *preload, *command], environment | {"LD_PRELOAD": ""})
        # Share, seconds, microseconds of each, calls, and errors if there are any.
        found = re.search(r"^100.00 +\S+ +\S+ +(\d+) .*total$", pathlib.Path(counts.name).read_text(), re.MULTILINE)
    if not found:
        raise MeasurementError("strace counted nothing")
    return int(found.group(1))


def program_rows(plan):
    rounds = plan.rounds(11, 5)
    connections, requests, commands = plan.count(4000, 1000), plan.count(500, 150), plan.count(10_000, 2_000)
    cases = [
        (f"PostgreSQL, {connections} connections of a query each", "plain", lambda variant: server(Postgres(connections, 4, ["-C"]), variant)),
        (f"python3, a fork for each of {requests} requests", "plain", lambda variant: server(Forking(requests), variant)),
        ("make -j2 of C programs", "plain", build),
        (f"shell script of {commands} commands, against an empty preloaded library", "empty", lambda variant: script(commands, variant)),
    ]
    for what, beside, measure in cases:
        say(f"children: {what}")
        variants = {beside: beside, "ramson": "ramson"}
        try:
            both = interleave(variants, rounds, measure)
        except (MeasurementError, FileNotFoundError, subprocess.CalledProcessError) as error:
            say(f"children: {what}: NOT MEASURED: {error}")
            continue
        mean, low, high = interval_of([ratio - 1 for ratio in (both["ramson"] / both[beside]).values])
        yield Row(what, both[beside].text(1, 2) + " s", both["ramson"].text(1, 2) + " s",
                  ratio=f"{mean * 100:+.1f}% ({low * 100:+.1f} to {high * 100:+.1f})", target=f"≤ +{MOST_SHARE * 100:.0f}%",
                  is_met=mean <= MOST_SHARE)


def environment_of(variant, **extra):
    match variant:
        case "ramson":
            return machine.ramson(**extra)
        case "empty":
            return machine.environment(LD_PRELOAD=EMPTY, **extra)
    return machine.environment(**extra)


def server(program, variant):
    """CPU seconds of a server and its children."""
    with short_directory() as directory:
        program.begin(environment_of(variant, RAMSON_DIR=directory / "profiles"), directory)
        try:
            program.work()
        finally:
            cpu = program.end()
        return cpu


def build(variant):
    return make_objects(environment_of(variant))


def make_objects(environment):
    """CPU seconds of make and all that it runs: the test programs, without one that takes an option to be compiled."""
    sources = sorted(set((machine.ROOT / "tests/programs").glob("*.c")) - {machine.ROOT / "tests/programs/plugin.c"})
    with tempfile.TemporaryDirectory() as directory:
        rules = "".join(f"{source.stem}.o: {source}\n\tgcc -O2 -w -c -o $@ $<\n" for source in sources)
        objects = " ".join(f"{source.stem}.o" for source in sources)
        (pathlib.Path(directory) / "Makefile").write_text(f"all: {objects}\n{rules}")
        return cpu_seconds(["make", "-s", "-j2", "-C", directory], environment | {"RAMSON_DIR": f"{directory}/profiles"})


def script(commands, variant):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "script"
        path.write_text(f"i=0\nwhile [ $i -lt {commands} ]; do /bin/true; i=$((i+1)); done\n")
        return cpu_seconds(["/bin/sh", path], environment_of(variant, RAMSON_DIR=f"{directory}/profiles"))
