"""Language run times: what `ramson run --languages` costs and finds, beside each one's own memory profiler."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import machine
from machine import say
from measure import MeasurementError, Series, interleave
from table import Row, Table

PROGRAMS = machine.PROGRAMS / "languages"
PYTHONS = ("python3.12", "python3.13", "python3.14")
MIB = 1 << 20
# Functions compared for each program.
MOST_FUNCTIONS = 3
# memray's peak, by the innermost Python function: what `function` has, and how much.
PEAK = """
import collections, json, sys, memray
sizes = collections.Counter()
with memray.FileReader(sys.argv[1]) as reader:
    for record in reader.get_high_watermark_allocation_records(merge_threads=True):
        stack = record.stack_trace(max_stacks=1)
        sizes[stack[0][0] if stack else ""] += record.size
print(json.dumps(sizes.most_common(20)))
"""


def tables(plan):
    if plan.is_check:
        return
    rounds = plan.rounds(5, 2)
    for make in (of_python, of_node, of_java):
        try:
            yield make(rounds)
        except MeasurementError as error:
            say(f"languages: NOT MEASURED: {error}")


class Held:
    """A program that has printed that it is ready; it ends with its standard input."""

    def __init__(self, command, environment, directory):
        self.process = subprocess.Popen([str(part) for part in command], env=environment, cwd=directory, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self):
        for self.line in self.process.stdout:
            if self.line.startswith("ready"):
                return self
        raise MeasurementError(f"{self.process.args[0]} did not start")

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.end()

    def end(self):
        """CPU seconds, of children too."""
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.process.stdout.close()
        return usage.ru_utime + usage.ru_stime


def cpu(command, environment, directory):
    held = Held(command, environment, directory)
    for line in held.process.stdout:
        if line.startswith("ready"):
            return held.end()
    raise MeasurementError(f"{command[0]} did not get ready")


def under_ramson(command, profile):
    return [machine.RAMSON, "run", "--languages", "-o", profile, "--force", "--", *command]


def rows_of(profile, *flags):
    report = subprocess.run([str(machine.RAMSON), "report", "--json", "-n", "0", *flags, str(profile)], env=machine.environment(), check=True,
                            capture_output=True, text=True)
    return json.loads(report.stdout)["rows"]


def by_function(profile, language, *flags):
    """Bytes and half the width of their 95% interval, by the innermost function of a language, without its class."""
    found = {}
    for row in rows_of(profile, *flags):
        names = [frame["function"].rsplit(".", 1)[-1] for frame in row["frames"] if frame.get("language") == language]
        value, variance = found.get(names[0] if names else "", (0, 0))
        half = row["value"]["half_width_95"]
        found[names[0] if names else ""] = (value + row["value"]["value"], variance + half * half)
    return {name: (value, variance ** 0.5) for name, (value, variance) in found.items()}


def python():
    """A Python that writes perf maps, with memray beside it."""
    found = next(filter(None, map(works, PYTHONS)), None)
    if not found:
        raise MeasurementError("no Python 3.12 or newer is installed")
    place = machine.BUILT / "memray"
    own = place / "bin" / "python"
    if not own.exists():
        subprocess.run([found, "-m", "venv", str(place)], check=True, capture_output=True)
        subprocess.run([str(own), "-m", "pip", "install", "-q", "memray"], check=True, capture_output=True)
    return own


def works(name):
    path = shutil.which(name)
    is_working = path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0
    versions = sorted(pathlib.Path.home().glob(f".pyenv/versions/{name.removeprefix('python')}.*/bin/{name}"))
    return path if is_working else str(versions[-1]) if versions else None


def of_python(rounds):
    own, rows, notes = python(), [], []
    version = machine.output_of(str(own), "--version")
    for name in ("parse.py", "graph.py", "rows.py"):
        say(f"languages: {name}")
        with tempfile.TemporaryDirectory() as directory:
            profile, recorded = pathlib.Path(directory) / "one.ramson", pathlib.Path(directory) / "one.memray"
            command = [own, PROGRAMS / name]
            memray = [own, "-m", "memray", "run", "--native", "--trace-python-allocators", "-q", "-f", "-o", recorded, PROGRAMS / name]
            variants = {"plain": (command, machine.environment()), "malloc": (command, machine.environment(PYTHONMALLOC="malloc")),
                        "ramson": (under_ramson(command, profile), machine.environment()), "memray": (memray, machine.environment())}
            times = interleave(variants, rounds, lambda variant: cpu(*variant, directory))
            sizes = [profile.stat().st_blocks * 512, recorded.stat().st_size]
            with Held(under_ramson(command, profile), machine.environment(), directory):
                ours = by_function(profile, "python", "--all-frames")
            peak = json.loads(machine.output_of(str(own), "-c", PEAK, str(recorded)))
        plain = times["plain"].median
        rows.append(Row(f"{name}: CPU", plain=times["plain"].text(1, 2) + " s", ramson=times["ramson"].text(1, 2) + " s",
                        peers=f"memray {times['memray'].text(1, 2)} s; PYTHONMALLOC=malloc alone {times['malloc'].text(1, 2)} s",
                        ratio=f"{times['ramson'].median / plain:.2f} ×; memray {times['memray'].median / plain:.2f} ×"))
        rows.append(Row(f"{name}: file", ramson=f"{sizes[0] / 1024:.0f} KiB", peers=f"memray {sizes[1] / MIB:.1f} MiB"))
        for function, size in [(function, size) for function, size in peak if size >= MIB][:MOST_FUNCTIONS]:
            value, half = ours.get(function, (0, 0))
            rows.append(Row(f"{name}: {function}", ramson=f"{value / MIB:.1f} MiB (±{half / MIB:.1f} MiB)", peers=f"memray {size / MIB:.1f} MiB",
                            target="within ±", is_met=abs(value - size) <= half))
    return Table("Python", rows, f"{version}; interval 512 KiB. By the innermost Python function: live bytes by ramson, at the peak by memray.")


def of_node(rounds):
    if not machine.has("node"):
        raise MeasurementError("node is not installed")
    say("languages: node")
    with tempfile.TemporaryDirectory() as directory:
        profile, command = pathlib.Path(directory) / "one.ramson", ["node", PROGRAMS / "buffers.js"]
        variants = {"plain": command, "ramson": under_ramson(command, profile),
                    "heap-prof": ["node", "--heap-prof", PROGRAMS / "buffers.js"]}
        times = interleave(variants, rounds, lambda command: cpu(command, machine.environment(), directory))
        with Held(under_ramson(command, profile), machine.environment(), directory) as held:
            truth = int(held.line.split()[1])
            value, half = by_function(profile, "javascript").get("readFrames", (0, 0))
        of_peer = sum(heap_prof(path) for path in sorted(pathlib.Path(directory).glob("*.heapprofile"))[-1:])
    return Table("node", [
        Row("buffers.js: CPU", plain=times["plain"].text(1, 2) + " s", ramson=times["ramson"].text(1, 2) + " s",
            peers=f"--heap-prof {times['heap-prof'].text(1, 2)} s", ratio=f"{times['ramson'].median / times['plain'].median:.2f} ×"),
        Row("buffers.js: readFrames", plain=f"{truth / MIB:.1f} MiB", ramson=f"{value / MIB:.1f} MiB (±{half / MIB:.1f} MiB)",
            peers=f"--heap-prof {of_peer / MIB:.1f} MiB", target="within ±", is_met=abs(value - truth) <= half),
    ], f"{machine.output_of('node', '--version')}. Under plain: `process.memoryUsage().arrayBuffers`.")


def heap_prof(path):
    """Bytes of readFrames itself and of what it called."""
    def total(node):
        return node["selfSize"] + sum(map(total, node["children"]))

    def of(node):
        return total(node) if node["callFrame"]["functionName"] == "readFrames" else sum(map(of, node["children"]))
    return of(json.loads(path.read_text())["head"])


def of_java(rounds):
    if not machine.has("javac"):
        raise MeasurementError("no JDK is installed")
    say("languages: java")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["javac", "-d", directory, str(PROGRAMS / "Direct.java")], check=True)
        profile, command = pathlib.Path(directory) / "one.ramson", ["java", "-Xcomp", "-XX:CompileCommand=quiet",
                                                                    "-XX:CompileCommand=compileonly,Direct::*", "-XX:CompileCommand=dontinline,Direct::*", "Direct"]
        tracked = ["java", "-XX:NativeMemoryTracking=summary", *command[1:]]
        variants = {"plain": command, "ramson": under_ramson(command, profile), "NMT": tracked}
        times = interleave(variants, rounds, lambda command: cpu(command, machine.environment(), directory))
        with Held(tracked, machine.environment(), directory) as held:
            summary = machine.output_of("jcmd", str(held.process.pid), "VM.native_memory")
            truth = int(re.search(r"Other \(reserved=\d+KB, committed=(\d+)KB", summary)[1]) << 10
        cpu(under_ramson(command, profile), machine.environment(), directory)
        allocated = [row for row in rows_of(profile, "--count", "alloc_space") if any(frame["function"].startswith("Direct.readFrame") for frame in row["frames"])]
        value = sum(row["value"]["value"] for row in allocated)
        half = sum(row["value"]["half_width_95"] ** 2 for row in allocated) ** 0.5
    return Table("Java", [
        Row("Direct: CPU", plain=times["plain"].text(1, 2) + " s", ramson=times["ramson"].text(1, 2) + " s",
            peers=f"NMT {times['NMT'].text(1, 2)} s", ratio=f"{times['ramson'].median / times['plain'].median:.2f} ×"),
        Row("Direct: Direct.readFrame", ramson=f"{value / MIB:.1f} MiB (±{half / MIB:.1f} MiB)", peers=f"NMT, Other: {truth / MIB:.1f} MiB",
            target="within ±", is_met=abs(value - truth) <= half),
    ], "By ramson: bytes allocated, after the end, as the names come then.")

