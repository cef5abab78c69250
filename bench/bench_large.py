"""Large foreign profiles: a pprof file of 100 MB with a million samples, read by ramson and by pprof; collapsed stacks of 1 GB."""

import os
import random
import shutil
import subprocess

import machine
from machine import say
from measure import MeasurementError, Series, apart
from table import Row, Table

GENERATOR = machine.ROOT / "target/release/examples/large"
# Most CPU time of the whole command, user and system: on two idle cores the command cannot take longer than that.
MOST_SECONDS = 2
MOST_BYTES = 1 << 30
# Collapsed stacks are not held: what is, are the distinct ones.
COLLAPSED_STACKS = 100_000
MOST_COLLAPSED_BYTES = 128 << 20


def tables(plan):
    if not plan.is_check:
        yield large_table(plan)
        yield collapsed_table(plan)


def large_table(plan):
    samples = plan.count(1_000_000, 100_000)
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--release", "-p", "ramson-encode", "--example", "large"],
                   cwd=machine.ROOT, check=True)
    old, new, merged = (machine.BUILT / f"large-{name}.pb.gz" for name in ("old", "new", "merged"))
    say(f"large: two files of {samples:,} samples")
    for path, seed in ((old, 1), (new, 2)):
        subprocess.run([GENERATOR, path, str(samples), str(seed)], check=True)
    commands = {
        "report FILE": [machine.RAMSON, "report", old],
        "report FILE --view tree": [machine.RAMSON, "report", old, "--view", "tree"],
        "report FILE --view peek .": [machine.RAMSON, "report", old, "--view", "peek", "."],
        "diff OLD NEW": [machine.RAMSON, "diff", old, new],
        "export OLD NEW -f pprof": [machine.RAMSON, "export", old, new, "-f", "pprof", "-o", merged, "--force"],
        "export FILE -f collapsed": [machine.RAMSON, "export", old, "-f", "collapsed"],
    }
    if machine.has("go"):
        commands["go tool pprof -top FILE"] = ["go", "tool", "pprof", "-top", old]
        commands["go tool pprof -proto FILE"] = ["go", "tool", "pprof", "-proto", f"-output={merged}", old]
    used = {name: [] for name in commands}
    try:
        for round_number in range(plan.rounds(3, 1)):
            for name, command in commands.items():
                # A minute and more each.
                if name.startswith("go ") and round_number > 0:
                    continue
                say(f"large: {name}")
                used[name].append(seconds_and_bytes(command))
    finally:
        for path in (old, new, merged):
            path.unlink(missing_ok=True)
    rows = [row(name, [Series(values).only(index) for index in (0, 1)]) for name, values in used.items()]
    return Table("Large foreign profiles", rows,
                 f"CPU seconds (user + system); largest resident size in MiB. {samples:,} samples of 10 to 49 addresses, nearly all"
                 " stacks distinct, packed with gzip; OLD and NEW share next to none. go tool pprof: one run.")


def row(name, used):
    seconds, size = used
    text = f"{seconds.text(digits=2)} s, {size.text(1 / (1 << 20), 0)} MiB"
    if name.startswith("go "):
        return Row(name, peers=text)
    is_met = size.median <= MOST_BYTES
    if name != "report FILE":
        return Row(name, ramson=text, target="≤ 1,024 MiB", is_met=is_met)
    is_met = is_met and seconds.median <= MOST_SECONDS
    return Row(name, ramson=text, target=f"≤ {MOST_SECONDS} s, ≤ 1,024 MiB", is_met=is_met)


def collapsed_table(plan):
    path = machine.BUILT / "large.collapsed"
    apart(write_collapsed, path, plan.count(1_000_000_000, 100_000_000))
    size = path.stat().st_size
    used = {"report FILE": [], "report -, from a pipe": []}
    try:
        for _ in range(plan.rounds(3, 1)):
            say("large: collapsed")
            used["report FILE"].append(seconds_and_bytes([machine.RAMSON, "report", path]))
            with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
                used["report -, from a pipe"].append(seconds_and_bytes([machine.RAMSON, "report", "-"], cat.stdout))
    finally:
        path.unlink(missing_ok=True)
    rows = []
    for name, values in used.items():
        seconds, largest = (Series(values).only(index) for index in (0, 1))
        text = f"{seconds.text(digits=2)} s, {largest.text(1 / (1 << 20), 0)} MiB"
        rows.append(Row(name, ramson=text, target="≤ 128 MiB", is_met=largest.median <= MOST_COLLAPSED_BYTES))
    return Table("Large collapsed stacks", rows, f"CPU seconds (user + system); largest resident size in MiB. {size / 1e6:,.0f} MB,"
                 f" {COLLAPSED_STACKS:,} distinct stacks of 10 to 49 functions.")


def write_collapsed(path, least_bytes):
    """Repeats the same stacks until the file is large enough."""
    source = random.Random(1)
    names = [f"service::module_{index % 97}::function_{index}" for index in range(5_000)]
    stacks = [";".join(source.choices(names, k=source.randrange(10, 50))) for _ in range(COLLAPSED_STACKS)]
    block = "".join(f"{stack} {source.randrange(1, 10_000)}\n" for stack in stacks).encode()
    with open(path, "wb") as file:
        while file.tell() < least_bytes:
            file.write(block)


def seconds_and_bytes(command, standard_input=subprocess.DEVNULL):
    """CPU time and largest resident size of one process; its children's where it starts another to do the work."""
    path = shutil.which(str(command[0]))
    child = subprocess.Popen([path, *map(str, command[1:])], env=machine.environment(), stdin=standard_input,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise MeasurementError(f"{command}: exit {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
