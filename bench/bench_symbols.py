"""Symbols: 10,000 stacks of a program with 290 MB of debug information, named by ramson and by its peers."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import machine
from machine import say
from measure import MeasurementError, Series, apart, run
from table import Row, Table

# A C++ program whose debug symbols are in Debian's main archive.
PACKAGES = ["ceph-mon", "ceph-mon-dbg"]
PPROF = "github.com/google/pprof@v0.0.0-20260906184651-6331bc6350fe"
FOLDER = machine.BUILT / "symbols"
PROGRAM = FOLDER / "ceph-mon"
CACHE = FOLDER / "cache"

STACKS = 10_000
DEPTH = 20
ADDRESSES = 20_000
LOADED_AT = 0x5555_5555_4000
MOST_COLD_SECONDS, MOST_WARM_SECONDS, MOST_BYTES = 2, 0.2, 500_000_000
# A peer that takes longer is stopped.
MOST_PEER_SECONDS = 60


def tables(plan):
    if not plan.is_check:
        yield symbols_table(plan)


def symbols_table(plan):
    build_program()
    pprof_file, heap_file, addresses_file = files = [FOLDER / name for name in ("profile.pb", "profile.heap", "addresses")]
    apart(write_profiles, *files)
    environment = machine.environment(XDG_CACHE_HOME=CACHE, GOBIN=FOLDER)
    report = [machine.RAMSON, "report", pprof_file]
    peers = {name: (command, standard_input) for name, (tool, command, standard_input) in {
        "google/pprof -top": (pprof(environment), [FOLDER / "pprof", "-symbolize=local", "-top", pprof_file], os.devnull),
        "llvm-symbolizer": ("llvm-symbolizer", ["llvm-symbolizer", f"--obj={PROGRAM}"], addresses_file),
        "eu-addr2line -f -C": ("eu-addr2line", ["eu-addr2line", "-f", "-C", "-e", PROGRAM], addresses_file),
        "eu-addr2line -f -C -i": ("eu-addr2line", ["eu-addr2line", "-f", "-C", "-i", "-e", PROGRAM], addresses_file),
        "jeprof --text": ("jeprof", ["jeprof", "--text", PROGRAM, heap_file], os.devnull),
    }.items() if machine.has(tool)}
    check_names(environment, pprof_file)
    used = {name: [] for name in ["cold", "warm", *peers]}
    for _ in range(plan.rounds(5, 2)):
        shutil.rmtree(CACHE, ignore_errors=True)
        for state in ("cold", "warm"):
            say(f"symbols: ramson, {state}")
            used[state].append(used_by(report, environment, os.devnull))
        for name, (command, standard_input) in peers.items():
            if None not in used[name]:
                say(f"symbols: {name}")
                used[name].append(used_by(command, environment, standard_input))
    return Table("Symbols of a large program", [*own_rows(used), *(peer_row(name, used) for name in peers)], note())


def note():
    version = machine.output_of("dpkg-deb", "-f", next(FOLDER.glob("ceph-mon_*.deb")), "Version")
    return (f"Wall seconds, CPU seconds and largest resident size. {STACKS:,} stacks of {DEPTH} frames, {ADDRESSES:,} distinct addresses in"
            f" the functions of Debian's ceph-mon {version}, with its debug information (zlib, unpacked"
            f" {debug_bytes() / 1e6:.0f} MB) in one file for all tools. Cold: without ramson's cache; the file itself is in the page cache."
            f" ramson and pprof read the same profile without names and make a table; llvm-symbolizer and eu-addr2line name the"
            f" addresses only. A peer is stopped after {MOST_PEER_SECONDS} s.")


def own_rows(used):
    for state, most_seconds in (("cold", MOST_COLD_SECONDS), ("warm", MOST_WARM_SECONDS)):
        seconds, _, size = series(used[state])
        is_met = seconds.median <= most_seconds and size.median <= MOST_BYTES
        yield Row(f"ramson report, {state}", ramson=text(used[state]), is_met=is_met,
                  target=f"≤ {most_seconds} s, ≤ {MOST_BYTES / 1e6:.0f} MB")


def peer_row(name, used):
    if None in used[name]:
        ratio = MOST_PEER_SECONDS / series(used["cold"])[0].median
        return Row(name, peers=f"> {MOST_PEER_SECONDS} s, stopped", ratio=f"> {ratio:.0f}×", target="> 1×", is_met=ratio > 1)
    ratio = (series(used[name])[0] / series(used["cold"])[0]).median
    return Row(name, peers=text(used[name]), ratio=f"{ratio:.1f}×", target="> 1×", is_met=ratio > 1)


def series(rounds):
    return [Series(rounds).only(index) for index in range(3)]


def text(rounds):
    seconds, cpu, size = series(rounds)
    return f"{seconds.text(digits=2)} s, CPU {cpu.text(digits=2)} s, {size.text(1e-6, 0)} MB"


def used_by(command, environment, input_path):
    """Wall and CPU seconds and largest resident size, with the processes that it started; `None` where it was stopped."""
    path = shutil.which(str(command[0]))
    start = time.monotonic()
    with open(input_path) as standard_input:
        child = subprocess.Popen([path, *map(str, command[1:])], env=environment, stdin=standard_input,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    stopper = signal.signal(signal.SIGALRM, lambda *_: os.killpg(child.pid, signal.SIGKILL))
    signal.alarm(MOST_PEER_SECONDS)
    _, status, usage = os.wait4(child.pid, 0)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, stopper)
    seconds = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode == -signal.SIGKILL:
        return None
    if child.returncode != 0:
        raise MeasurementError(f"{command}: exit {child.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10


def check_names(environment, profile):
    """Fails unless the names are found: a tool without them is fast for the wrong reason."""
    missing = json.loads(run([machine.RAMSON, "report", "--json", profile], environment))["missing_symbols"]
    if missing:
        raise MeasurementError(f"ramson has no names: {missing}")


def build_program():
    """Program and debug information from their packages, as one file that every tool takes."""
    if PROGRAM.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    say(f"symbols: fetching {' and '.join(PACKAGES)}")
    parts = FOLDER / "parts"
    try:
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=FOLDER, check=True, capture_output=True)
        for package in PACKAGES:
            subprocess.run(["dpkg-deb", "-x", next(FOLDER.glob(f"{package}_*.deb")), parts], check=True)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        raise MeasurementError(f"{PACKAGES} cannot be fetched: {error}") from error
    stripped = parts / "usr/bin/ceph-mon"
    name = build_id(stripped)
    debug = parts / f"usr/lib/debug/.build-id/{name[:2]}/{name[2:]}.debug"
    whole = FOLDER / "whole"
    subprocess.run(["eu-unstrip", "-o", whole, stripped, debug], check=True)
    shutil.rmtree(parts)
    whole.rename(PROGRAM)


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", machine.output_of("readelf", "-n", path)).group(1)


def pprof(environment):
    """google/pprof itself: Go's own pprof does not read the debug information of C++."""
    path = FOLDER / "pprof"
    if not path.exists() and machine.has("go"):
        subprocess.run(["go", "install", PPROF], env=environment, check=True, capture_output=True)
    return path


def debug_bytes():
    sections = machine.output_of("readelf", "--section-details", "--wide", PROGRAM)
    return sum(int(size, 16) for size in re.findall(r"\.debug_\w+\n.*\n.*\n\s+ZLIB, ([0-9a-f]+)", sections))


def write_profiles(pprof_file, heap_file, addresses_file):
    """The same stacks as pprof's protobuf and as jemalloc's text, and their addresses in the file."""
    functions = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] ", machine.output_of("nm", "-S", PROGRAM), re.MULTILINE)
    source = random.Random(1)
    distinct = set()
    while len(distinct) < ADDRESSES:
        start, size = (int(number, 16) for number in source.choice(functions))
        distinct.add(start + source.randrange(size) if size else start)
    addresses = sorted(distinct)
    source.shuffle(addresses)
    stacks = [[addresses[index], *source.sample(addresses, DEPTH - 1)] for index in range(STACKS)]
    pprof_file.write_bytes(protobuf(stacks))
    heap_file.write_text(heap_v2(stacks))
    addresses_file.write_text("".join(f"{address:#x}\n" for address in addresses))


def code_segment():
    """Address, file offset and size of the segment with the program's code."""
    found = re.search(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ R E", machine.output_of("readelf", "-lW", PROGRAM))
    offset, address, size = (int(number, 16) for number in found.groups())
    return address, offset, size


def heap_v2(stacks):
    # jeprof takes 1 off the address of every caller.
    stack = lambda addresses: " ".join(f"{LOADED_AT + address + (index > 0):#x}" for index, address in enumerate(addresses))
    lines = ["heap_v2/524288", f"  t*: {len(stacks)}: {len(stacks) << 10} [0: 0]"]
    for addresses in stacks:
        lines += [f"@ {stack(addresses)}", "  t*: 1: 1024 [0: 0]"]
    address, offset, size = code_segment()
    start = LOADED_AT + address
    lines += ["", "MAPPED_LIBRARIES:", f"{start:x}-{start + size:x} r-xp {offset:08x} 00:00 1 {PROGRAM}"]
    return "\n".join(lines) + "\n"


def protobuf(stacks):
    texts = ["", "inuse_objects", "count", "inuse_space", "bytes", "space", str(PROGRAM), build_id(PROGRAM)]
    parts = [field(1, message((1, 1), (2, 2))), field(1, message((1, 3), (2, 4)))]
    ids = {}
    for addresses in stacks:
        packed = b"".join(varint(ids.setdefault(address, len(ids) + 1)) for address in addresses)
        parts.append(field(2, field(1, packed) + field(2, varint(1) + varint(1024))))
    address, offset, size = code_segment()
    start = LOADED_AT + address
    parts.append(field(3, message((1, 1), (2, start), (3, start + size), (4, offset), (5, 6), (6, 7))))
    parts += [field(4, message((1, index), (2, 1), (3, LOADED_AT + address))) for address, index in ids.items()]
    parts += [field(6, text.encode()) for text in texts]
    parts.append(field(11, message((1, 5), (2, 4))) + message((12, 524288)))
    return b"".join(parts)


def message(*numbers):
    return b"".join(varint(tag << 3) + varint(number) for tag, number in numbers)


def field(tag, content):
    return varint(tag << 3 | 2) + varint(len(content)) + content


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
