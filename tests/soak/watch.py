"""Watches one program of the soak: its books, ramson's own memory, and its RSS beside that of the plain program."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/soak"
# Copies, so that a build in the meantime does not change what is loaded.
LIBRARY, ACCOUNTS = BUILT / "libramson.so", BUILT / "accounts"
BUILDS = {
    LIBRARY: ("guest/libramson.so", ["--profile", "guest", "-p", "libramson"]),
    ACCOUNTS: ("release/examples/accounts", ["--release", "-p", "ramson-reader", "--example", "accounts"]),
}
MIB = 1 << 20
# ramson's own memory in a process: as `report --view health` states it.
BOUND_BYTES, BOUND_SHARE = 4 * MIB, 0.0005
# Most by which the RSS of two runs of the same program under the same load may differ, without ramson's own memory: what allocators keep
# differs that much.
RSS_SHARE = 0.15
LOOK_SECONDS = 60
# A wrong alarm once in 10⁶ looks.
SIGMAS = 5
# Pages of the library's data that were written, and of the profile's end that is not used yet.
UNCOUNTED_BYTES = 256 << 10
# Memory that a C++ program holds before main: the emergency pool of exceptions, and buffers.
START_BYTES = 256 << 10


def build():
    BUILT.mkdir(parents=True, exist_ok=True)
    for copy, (made, arguments) in BUILDS.items():
        subprocess.run(["cargo", "build", "--quiet", "--locked", *arguments], cwd=ROOT, check=True, stdout=sys.stderr)
        copy.unlink(missing_ok=True)
        shutil.copy(ROOT / "target" / made, copy)
    source = ROOT / "tests/soak/torture.cc"
    subprocess.run(["g++", "-O2", "-Wall", "-pthread", "-o", BUILT / "torture", source], check=True, stdout=sys.stderr)


@dataclasses.dataclass
class Row:
    name: str
    seconds: float
    looks: int = 0
    samples: int = 0
    own_bytes: int = 0
    bound_bytes: float = 0
    resident_bytes: int = 0
    drift: int = 0
    dropped: int = 0
    rss_bytes: int = 0
    plain_rss_bytes: int = 0
    has_bound: bool = True
    faults: list = dataclasses.field(default_factory=list)

    def check(self, is_so, fault):
        if not is_so:
            self.faults.append(fault)

    def progress(self):
        return f"soak: {self.name}: {self.outcome('as it should be')}"

    def outcome(self, good):
        return " ".join("; ".join(self.faults[:3]).split()) or good

    def cells(self):
        bound = f"of {self.bound_bytes / MIB:.2f}" if self.has_bound else "(no bound)"
        own = f"{self.own_bytes / MIB:.2f} {bound}"
        return [self.name, f"{self.seconds / 60:.1f}", str(self.looks), f"{self.samples:,}", own,
                f"{self.resident_bytes / MIB:.2f}", str(self.drift), f"{self.dropped:,}", f"{self.rss_bytes / MIB:.1f}",
                f"{self.plain_rss_bytes / MIB:.1f}", self.outcome("yes")]


def table(rows):
    head = ["program", "minutes", "looks", "samples", "own MiB, most in a process", "of them resident, with its code", "drift, samples", "dropped",
            "RSS, MiB", "RSS plain, MiB", "as it should be"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def environment(directory, interval=None):
    """Environment of the plain program, or of one under ramson. The bound on overhead would raise the interval."""
    base = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C", "RAMSON_DIR": str(directory)}
    if interval is None:
        return base
    return base | {"LD_PRELOAD": str(LIBRARY), "RAMSON_INTERVAL": interval, "RAMSON_MAX_OVERHEAD": "off"}


def soak(name, kind, directory, seconds):
    row = Row(name, seconds, has_bound=kind.has_memory_bound)
    running = []
    try:
        for variant, interval in (("plain", None), ("ramson", kind.interval)):
            (directory / variant).mkdir()
            (directory / variant / "profiles").mkdir()
            running.append(kind(directory / variant, environment(directory / variant / "profiles", interval), seconds))
        watch(row, *running, directory / "ramson/profiles", seconds)
    except Exception as error:
        row.faults.append(f"{type(error).__name__}: {error}")
    finally:
        for program in running:
            program.is_over.set()
            program.kill()
    return row


def watch(row, plain, profiled, profiles, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(LOOK_SECONDS, seconds / 4, max(0, end - time.monotonic())))
        look(row, plain, profiled, profiles)
    for program in (plain, profiled):
        program.stop_load()
        row.check(program.fault is None, str(program.fault))
    look(row, plain, profiled, profiles)
    row.check(row.samples > 0, "nothing was recorded")
    if hasattr(profiled, "true_live_bytes"):
        compare_with_truth(row, profiled, profiles)
    compare_results(row, plain, profiled)
    most = plain_and_own(row)
    row.check(row.rss_bytes <= most, f"RSS {row.rss_bytes / MIB:.1f} MiB, at most {most / MIB:.1f}")


def plain_and_own(row):
    return row.plain_rss_bytes * (1 + RSS_SHARE) + row.bound_bytes


def compare_results(row, plain, profiled):
    expected, found = plain.results(), profiled.results()
    both = min(len(expected), len(found))
    row.check(both > 0 and expected[:both] == found[:both], f"results {found[:3]} instead of {expected[:3]}")
    for program in (plain, profiled):
        status = program.end()
        row.check(status == 0, f"ended with {status}")


def compare_with_truth(row, profiled, profiles):
    truth = profiled.true_live_bytes()
    (books,) = [found for found in map(accounts, profiles.iterdir()) if found["pid"] == profiled.process.pid]
    excess, error = books["live_space"] - truth, SIGMAS * books["live_sigma"]
    is_near = -error <= excess <= error + START_BYTES
    row.check(is_near, f"live {books['live_space']} instead of {truth}, error at most {error}")


def look(row, plain, profiled, profiles):
    """Reads the books of every process that runs now. They are stopped meanwhile: what threads do in between would look like drift."""
    row.looks += 1
    for path in sorted(profiles.glob("*.ramson")):
        pid = int(path.name.split("-")[0])
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            continue
        try:
            wait_until_stopped(pid)
            books, resident = accounts(path), own_resident_bytes(pid)
        except (FileNotFoundError, ProcessLookupError):
            # It ended in the meantime.
            continue
        finally:
            resume(pid)
        judge(row, books, resident, profiled)
    row.rss_bytes, row.plain_rss_bytes = (proportional_bytes(program.process.pid) for program in (profiled, plain))


def judge(row, books, resident, program):
    drift = books["alloc_objects"] - books["freed_objects"] - books["dropped_live"] - books["live_objects"]
    # Blocks that are on their way into the books or out of them, or that had no room there, are not fully known.
    drift_bytes = books["alloc_bytes"] - books["freed_bytes"] - books["live_bytes"]
    is_whole = drift == 0 and books["dropped_live"] == 0 and books["defects"] == 0
    bound = BOUND_BYTES + BOUND_SHARE * books["live_space"]
    row.samples = max(row.samples, books["samples"])
    row.drift = max(row.drift, abs(drift))
    row.dropped = max(row.dropped, books["dropped"])
    row.resident_bytes = max(row.resident_bytes, resident)
    if books["own_bytes"] - bound > row.own_bytes - row.bound_bytes or row.own_bytes == 0:
        row.own_bytes, row.bound_bytes = books["own_bytes"], bound
    row.check(abs(drift) <= program.threads, f"process {books['pid']}: allocated − freed is {drift:+} samples from live")
    row.check(drift_bytes == 0 or not is_whole, f"process {books['pid']}: allocated − freed is {drift_bytes:+} bytes from live")
    row.check(books["dropped"] == 0 or not program.has_memory_bound, f"process {books['pid']}: {books['dropped']} dropped")
    known = books["own_bytes"] + LIBRARY.stat().st_size + UNCOUNTED_BYTES
    row.check(resident <= known, f"process {books['pid']}: {resident} bytes of ramson are resident, {known} are known")
    row.check(books["own_bytes"] <= bound or not program.has_memory_bound, f"process {books['pid']}: own memory {books['own_bytes']}, bound {bound:.0f}")
    row.check(books["defects"] <= program.threads, f"process {books['pid']}: {books['defects']} defects")


def wait_until_stopped(pid):
    for _ in range(1000):
        states = [status_of(task) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        if all(state in "TtZX" for state in states):
            return
        time.sleep(0.001)


def status_of(task):
    return (task / "stat").read_text().rpartition(") ")[2][0]


def resume(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def accounts(path):
    finished = subprocess.run([ACCOUNTS, path], capture_output=True, text=True)
    if finished.returncode != 0:
        # The file of a process that ended is gone.
        raise (RuntimeError if path.exists() else FileNotFoundError)(finished.stderr.strip())
    return json.loads(finished.stdout)


def proportional_bytes(pid):
    """Bytes of a process and all below it: memory that several share counts once."""
    total = 0
    for each in [pid, *children_of(pid)]:
        try:
            lines = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def own_resident_bytes(pid):
    """Resident bytes of the profile, of the library, and of the memory without a name at the end of the library: the page filter."""
    total, is_own, library_end = 0, False, None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            start, end = words[0].split("-")
            is_library = line.endswith("/libramson.so") or (len(words) == 5 and start == library_end)
            is_own = is_library or ".ramson" in line
            library_end = end if is_library else library_end
        elif words[0] == "Rss:" and is_own:
            total += int(words[1]) << 10
    return total


def children_of(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [each for child in map(int, found) for each in (child, *children_of(child))]
