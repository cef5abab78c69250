"""How things are measured: interleaved rounds, CPU time of a process, instructions under callgrind."""

import dataclasses
import math
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import time

import machine

# Student's t for a two-sided interval of 95%, by degrees of freedom; 2 beyond.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


@dataclasses.dataclass
class Plan:
    """How much to measure. `is_check`: only what is deterministic."""
    is_quick: bool
    is_check: bool

    def rounds(self, full, quick):
        return quick if self.is_quick else full

    def count(self, full, quick):
        return quick if self.is_quick or self.is_check else full


class MeasurementError(Exception):
    """A measured program failed, or what should have been measured did not happen."""


class Series:
    """The values of one variant, one per round."""

    def __init__(self, values):
        self.values = list(values)

    @property
    def median(self):
        return statistics.median(self.values)

    def only(self, index):
        """The series of one number, if each round gave several."""
        return Series(numbers[index] for numbers in self.values)

    def text(self, scale=1.0, digits=1):
        low, high = min(self.values) * scale, max(self.values) * scale
        return f"{self.median * scale:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"

    def __sub__(self, other):
        return Series(a - b for a, b in zip(self.values, other.values, strict=True))

    def __truediv__(self, other):
        return Series(a / b for a, b in zip(self.values, other.values, strict=True))


def interval_of(values):
    """Mean and 95% interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    half = STUDENT.get(len(values) - 1, 2.0) * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def interleave(variants, rounds, measure):
    """`measure(environment)` for every variant, A B C A B C; returns a Series for each."""
    values = {name: [] for name in variants}
    for _ in range(rounds):
        for name, environment in variants.items():
            values[name].append(measure(environment))
    return {name: Series(series) for name, series in values.items()}


def run(command, environment, **options):
    """Runs to the end and returns its standard output; fails if it fails."""
    command = [str(part) for part in command]
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if finished.returncode != 0:
        raise MeasurementError(f"{' '.join(command)}: exit {finished.returncode}\n{finished.stderr[-2000:]}")
    return finished.stdout


def apart(function, *arguments):
    """Runs it in a process of its own. The largest resident size of a command begins with that of the process that starts it,
    so this one must stay small."""
    worker = multiprocessing.Process(target=function, args=arguments)
    worker.start()
    worker.join()
    if worker.exitcode != 0:
        raise MeasurementError(f"{function.__name__}: exit {worker.exitcode}")


def results_of(output):
    """The numbers of the line `result …` that our programs print."""
    found = re.search(r"^result (.*)$", output, re.MULTILINE)
    if not found:
        raise MeasurementError(f"no result in {output!r}")
    return [float(number) for number in found.group(1).split()]


def cpu_seconds(command, environment, input_path=os.devnull):
    """User and system time of one process and the children it waited for."""
    with open(input_path) as standard_input:
        child = subprocess.Popen([str(part) for part in command], env=environment, stdin=standard_input,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise MeasurementError(f"{command}: exit {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def wall_seconds(command, environment):
    start = time.monotonic()
    output = run(command, environment)
    return time.monotonic() - start, output


# The same caches on every machine.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]


def callgrind_command(command, name, *options):
    """The command under callgrind, and where it will write: a profile and a log."""
    out, log = machine.BUILT / f"callgrind.{name}.out", machine.BUILT / f"callgrind.{name}.log"
    tool = ["valgrind", "--tool=callgrind", *options, f"--callgrind-out-file={out}", f"--log-file={log}"]
    return [str(part) for part in [*tool, *command]], out, log


def collected(environment, out, log, must_allocate=True):
    """The instructions of a finished callgrind run, then what else it counted. The preload must have been at work, or the number says
    nothing."""
    found = re.search(r"Collected : ([\d ]+)", log.read_text())
    if not found:
        raise MeasurementError(f"{log}: callgrind has not finished:\n{log.read_text()[-1500:]}")
    is_ours = str(machine.LIBRARY) in environment.get("LD_PRELOAD", "")
    if is_ours and must_allocate and not has_hooks(out):
        raise MeasurementError(f"{out}: libramson's malloc was not called")
    return [int(count) for count in found.group(1).split()]


def instructions(command, environment, name, input_path=os.devnull, must_allocate=True):
    """Instructions of one program from its first to its last, the dynamic loader included."""
    under_callgrind, out, log = callgrind_command(command, name)
    with open(input_path) as standard_input:
        run(under_callgrind, environment, stdin=standard_input)
    return collected(environment, out, log, must_allocate)[0]


def counts(command, environment, name, apart):
    """Instructions of one program, and lines of data that were not in the cache, without calls of the function `apart`."""
    under_callgrind, out, log = callgrind_command(command, name, *CACHES)
    run(under_callgrind, environment)
    found, besides = collected(environment, out, log), counted_in(apart, out)
    left = {event: count - beside for (event, beside), count in zip(besides.items(), found)}
    return left["Ir"], left["D1mr"] + left["D1mw"]


def named(out):
    """The lines of a callgrind profile: (what is named there, its name), or (None, the line)."""
    names = {}
    for line in out.read_text(errors="replace").splitlines():
        kind, _, rest = line.partition("=")
        if kind not in ("ob", "fn", "cob", "cfn"):
            yield None, line
            continue
        # A name is spelt out where its number first appears, be it as caller or as callee.
        found = re.match(r"\((\d+)\)(?: (.*))?", rest)
        key = kind.removeprefix("c"), found.group(1)
        if found.group(2):
            names[key] = found.group(2)
        yield kind, names.get(key, "")


def has_hooks(out):
    """Whether malloc or operator new of libramson.so appears in a callgrind profile."""
    is_ours = False
    for kind, name in named(out):
        if kind == "ob":
            is_ours = pathlib.Path(name) == machine.LIBRARY
        elif kind == "fn" and is_ours and name.split("'")[0] in ("malloc", "calloc", "realloc", "_Znwm"):
            return True
    return False


def counted_in(function, out):
    """Counts of a callgrind profile in all calls of `function`, by event."""
    events, sums, is_apart, is_cost_next = [], {}, False, False
    for kind, text in named(out):
        if kind == "cfn":
            is_apart = text.endswith(function)
        elif kind is None and text.startswith("events: "):
            events = text.split()[1:]
            sums = dict.fromkeys(events, 0)
        elif kind is None and text.startswith("calls="):
            is_cost_next = True
        elif kind is None and is_cost_next:
            # A position, then what was counted, without zeroes at the end.
            is_cost_next = False
            for event, count in zip(events, text.split()[1:]) if is_apart else ():
                sums[event] += int(count)
    return sums


def ratio_in_percent(ratio):
    return f"{(ratio - 1) * 100:+.2f}%"
