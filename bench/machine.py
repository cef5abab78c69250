"""Paths, builds, versions, variants of an environment: where things are, what they are made from, and on which machine."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "bench/programs"
BUILT = ROOT / "target/bench"
PROFILES = BUILT / "profiles"
# Copies, so that a build during a run of half an hour does not change what is measured.
RAMSON = BUILT / "ramson"
LIBRARY = BUILT / "libramson.so"
MEASURE_SYMBOLS = BUILT / "measure"
LEAKS_TRUTH = BUILT / "leaks_truth"
LEAKS_LABELLED = BUILT / "leaks_labelled"
SIMULATE_HISTORY = BUILT / "simulate"
BUILDS = {
    RAMSON: ("release/ramson", ["--release", "-p", "ramson"]),
    LIBRARY: ("guest/libramson.so", ["--profile", "guest", "-p", "libramson"]),
    MEASURE_SYMBOLS: ("release/examples/measure", ["--release", "-p", "ramson-symbols", "--example", "measure"]),
    LEAKS_TRUTH: ("release/examples/leaks_truth", ["--release", "-p", "ramson-tests", "--example", "leaks_truth"]),
    LEAKS_LABELLED: ("release/examples/leaks_labelled", ["--release", "-p", "ramson-tests", "--example", "leaks_labelled"]),
    SIMULATE_HISTORY: ("release/examples/simulate", ["--release", "-p", "ramson-history", "--example", "simulate"]),
}
INTERVAL_BYTES = 512 << 10
# For what is to be sampled to its end, however much of the processor that takes.
UNGOVERNED = {"RAMSON_MAX_OVERHEAD": "off"}

SYSTEM_LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
JEMALLOC = SYSTEM_LIBRARIES / "libjemalloc.so.2"
TCMALLOC = SYSTEM_LIBRARIES / "libtcmalloc.so.4"
C_LIBRARY = "libc.so.6"

# Commands and files that must be there, and the Debian package that has each. The first group is needed, the second are peers.
NEEDED = {"gcc": "gcc", "g++": "g++", "valgrind": "valgrind", "nm": "binutils"}
PEERS = {
    JEMALLOC: "libjemalloc2",
    TCMALLOC: "libgoogle-perftools4",
    "heaptrack": "heaptrack",
    "redis-server": "redis-server",
    "redis-benchmark": "redis-tools",
    "sqlite3": "sqlite3",
    "/usr/bin/python3": "python3",
    "llvm-symbolizer": "llvm",
    "eu-addr2line": "elfutils",
    "jeprof": "libjemalloc-dev",
    "go": "golang-go",
    "stress-ng": "stress-ng",
}


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def has(peer):
    """Whether a command or library is installed."""
    return pathlib.Path(peer).exists() if "/" in str(peer) else shutil.which(peer) is not None


def environment(**extra):
    """A small environment that is the same on every machine, with what a variant adds."""
    names = ("PATH", "HOME")
    base = {name: os.environ[name] for name in names if name in os.environ}
    return base | {"LANG": "C", "RAMSON_DIR": str(PROFILES)} | {name: str(value) for name, value in extra.items()}


def ramson(interval=None, over="", **extra):
    """The environment of a program under ramson, with the default interval unless told, on top of the library `over`."""
    if interval is not None:
        extra["RAMSON_INTERVAL"] = interval
    return environment(LD_PRELOAD=f"{LIBRARY} {over}".strip(), **extra)


def jemalloc(is_profiling, preload=True):
    profiling = {"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19"} if is_profiling else {}
    return environment(**({"LD_PRELOAD": JEMALLOC} if preload else {}), **profiling)


def tcmalloc(is_profiling):
    interval_bytes = INTERVAL_BYTES if is_profiling else 0
    return environment(LD_PRELOAD=TCMALLOC, TCMALLOC_SAMPLE_PARAMETER=interval_bytes)


def peers():
    """The allocators' own profilers, off and on, as far as they are installed."""
    variants = {}
    if has(JEMALLOC):
        variants |= {"jemalloc": jemalloc(False), "jemalloc prof": jemalloc(True)}
    if has(TCMALLOC):
        variants |= {"tcmalloc": tcmalloc(False), "tcmalloc prof": tcmalloc(True)}
    return variants


def build(copies=tuple(BUILDS)):
    """Builds ramson and the programs to measure; of `BUILDS` only these."""
    for command, package in NEEDED.items():
        if not has(command):
            sys.exit(f"bench: {command} is not installed: apt-get install {package}")
    PROFILES.mkdir(parents=True, exist_ok=True)
    say("building")
    for copy, (made, arguments) in ((copy, BUILDS[copy]) for copy in copies):
        subprocess.run(["cargo", "build", "--quiet", "--locked", *arguments], cwd=ROOT, check=True, stdout=sys.stderr)
        copy.unlink(missing_ok=True)
        shutil.copy(ROOT / "target" / made, copy)
    for name in ("loop", "first", "objects", "extents"):
        compile_c(PROGRAMS / f"{name}.c", name, "-fomit-frame-pointer", "-ldl")
    for name in ("library", "passthrough", "fixed_random"):
        compile_c(PROGRAMS / f"{name}.c", f"{name}.so", "-shared", "-fPIC", "-fno-builtin", "-ldl")


def compile_c(source, name, *options):
    """Compiles a C program into target/bench and returns its path."""
    libraries = [option for option in options if option.startswith("-l")]
    others = [option for option in options if not option.startswith("-l")]
    subprocess.run(["gcc", "-O2", "-Wall", *others, "-o", BUILT / name, source, *libraries], check=True, stdout=sys.stderr)
    return BUILT / name


def output_of(*command):
    try:
        finished = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return finished.stdout.strip()


def file_system():
    """File system of the profiles. How far a page fault reads ahead decides what the first touch of a file costs."""
    kind = output_of("df", "--output=fstype", PROFILES).split("\n")[-1]
    device = os.stat(PROFILES).st_dev
    name = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in ("queue", "../queue"):
        path = pathlib.Path(name).resolve() / queue / "read_ahead_kb"
        if path.exists():
            return f"{kind} (read-ahead {path.read_text().strip()} KiB)"
    return kind


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def commit():
    dirty = " with uncommitted changes" if output_of("git", "status", "--porcelain") else ""
    return output_of("git", "rev-parse", "--short=7", "HEAD") + dirty


def place():
    """For documents: `at commit …, on …`."""
    versions = {"libjemalloc2": "jemalloc", "libgoogle-perftools4": "google-perftools", "heaptrack": "heaptrack",
                "redis-server": "redis-server"}
    found = output_of("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *versions).splitlines()
    peers = [f"{versions[name]} {version.split(':')[-1].split('-')[0]}" for name, version in (line.split() for line in found)]
    return (f"at commit {commit()}, on a machine with {os.cpu_count()} cores ({cpu_name()}), Linux {os.uname().release.split('-')[0]},"
            f" {os.confstr('CS_GNU_LIBC_VERSION')}, {', '.join(peers)}")


def describe():
    """The head of the report: machine, commit, versions, and loudly what is missing."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    packages = ["libc6", "valgrind", "libjemalloc2", "libgoogle-perftools4", "heaptrack", "redis-server", "sqlite3",
                "llvm", "elfutils"]
    versions = output_of("dpkg-query", "-W", "-f", "${Package} ${Version}, ", *packages).rstrip(", ")
    lines = [
        "# What ramson costs", "",
        f"- machine: {cpu_name()}, {os.cpu_count()} cores, Linux {os.uname().release}, load {load} at the start",
        f"- C library: {os.confstr('CS_GNU_LIBC_VERSION')}; compilers: {output_of('gcc', '--version').splitlines()[0]};"
        f" {output_of('rustc', '--version')}",
        f"- ramson: commit {commit()}; profiles on {file_system()}; interval 512 KiB unless said",
        f"- packages: {versions or 'not a Debian machine'}",
        "- times: median (min–max) of interleaved rounds, CPU time (user + system) unless said; a difference or ratio is the"
        " median over the rounds. Instructions: callgrind. Only rows marked *gate* fail a check.",
    ]
    for peer, package in PEERS.items():
        if not has(peer):
            lines.append(f"- **NOT MEASURED: {peer} is not installed. `apt-get install {package}`**")
    return "\n".join(lines) + "\n"
