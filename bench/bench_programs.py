"""Costs for real programs: redis SET and GET, python's json, a sqlite query, a C++ compiler. Instructions and CPU time."""

import dataclasses
import os

import machine
import redis_server
from machine import say
from measure import MeasurementError, Series, cpu_seconds, instructions, interleave, ratio_in_percent, run
from table import Row, Table

TARGET_RATIO = 1.015
TARGET = "≤ +1.5%"
# Which blocks are sampled is chance, and a sample that lives beside a busy block costs: the median counts, the range shows.
REDIS_RUNS = 3
# Variants that are compared with the target are measured several times, peers once.
OURS = ("plain", "ramson")
# A variable of the environment moves the heap, and glibc then merges and splits otherwise: ±0.2% of python's instructions.
LAYOUTS = [{"BENCH_LAYOUT": "x" * length} for length in (1, 20, 70)]
REDIS = {"redis on its jemalloc": redis_server.over_jemalloc, "redis on glibc": redis_server.over_glibc}

JSON_PROGRAM = """
import json
record = {"id": 4711, "name": "a name of some length", "tags": ["red", "green", "blue"],
          "points": [{"x": i, "y": i * 0.5, "label": "point %d" % i} for i in range(40)]}
text = json.dumps(record)
for _ in range(COUNT):
    record = json.loads(text)
    text = json.dumps(record)
"""

SQL_PROGRAM = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER);
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < COUNT)
  INSERT INTO item SELECT n, printf('item %d of %d', n, n * 7919 % 10007), n % 1000 FROM number;
CREATE INDEX item_amount ON item(amount);
SELECT count(*), sum(length(name)) FROM item WHERE amount BETWEEN 100 AND 500;
WITH RECURSIVE tree(id, level) AS (SELECT 1, 0 UNION ALL SELECT id * 2 + bit, level + 1
  FROM tree, (SELECT 0 AS bit UNION SELECT 1) WHERE level < 13)
  SELECT count(*), length(group_concat(name)) FROM (SELECT name FROM tree JOIN item USING (id) ORDER BY name);
"""


@dataclasses.dataclass
class Program:
    """A command, what it reads on standard input, and how it can be run."""
    name: str
    command: list
    variants: dict
    input_path: str = os.devnull


def programs(plan, is_counting):
    """Counting under callgrind is fifty times slower, so it gets less to do: less would weigh the start too much."""
    scale = 0.5 if is_counting else 0.4 if plan.is_quick else 1
    plain_and_ours = {"plain": machine.environment(), "ramson": machine.ramson()}
    peers = {} if plan.is_check else machine.peers()
    found = []
    if machine.has("/usr/bin/python3"):
        command = ["/usr/bin/python3", "-S", "-c", JSON_PROGRAM.replace("COUNT", str(int(4000 * scale)))]
        fixed = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        variants = {name: environment | fixed for name, environment in (plain_and_ours | peers).items()}
        found.append(Program("python3 json, PYTHONMALLOC=malloc", command, variants))
    if machine.has("sqlite3"):
        sql = machine.BUILT / "query.sql"
        sql.write_text(SQL_PROGRAM.replace("COUNT", str(int(400_000 * scale))))
        variants = plain_and_ours | peers
        found.append(Program("sqlite3 :memory:, insert, index, query", ["sqlite3", ":memory:"], variants, str(sql)))
    source = machine.BUILT / "containers.ii"
    run(["g++", "-E", "-o", source, machine.PROGRAMS / "containers.cc"], machine.environment())
    compiler = machine.output_of("g++", "-print-prog-name=cc1plus")
    command = [compiler, "-quiet", "-O1", "-fpreprocessed", source, "-o", os.devnull]
    found.append(Program("cc1plus -O1, C++ containers", command, plain_and_ours))
    return found


def tables(plan):
    yield instruction_table(plan)
    if not plan.is_check:
        yield time_table(plan)


def instruction_table(plan):
    rows = []
    requests = plan.count(160_000, 64_000)
    for name, variants in REDIS.items() if redis_server.is_installed() else ():
        counts = {}
        try:
            for variant, environment in variants().items():
                if plan.is_check and variant not in OURS:
                    continue
                say(f"programs: instructions, {name}, {variant}")
                counts[variant] = [redis_server.counted_per_request(environment, requests)
                                   for _ in range(REDIS_RUNS if variant in OURS else 1)]
        except MeasurementError as error:
            rows.append(failed_row(name, variant, error, is_gate=True))
            continue
        for index, command in enumerate(("SET", "GET")):
            only = {variant: Series(numbers).only(index) for variant, numbers in counts.items()}
            rows.append(counted_row(f"{name}, {command}", only))
    for program in programs(plan, is_counting=True):
        counts = {}
        for variant, environment in program.variants.items():
            say(f"programs: instructions, {program.name}, {variant}")
            layouts = LAYOUTS if variant in OURS else LAYOUTS[:1]
            counts[variant] = [instructions(program.command, environment | layout, "program", program.input_path)
                               for layout in layouts]
        rows.append(counted_row(program.name, {variant: Series(numbers) for variant, numbers in counts.items()}, 1e-6))
    note = (f"redis: per request, one client, -P 16, values of 100 B; the difference of runs of {requests // 8:,} and "
            f"{requests + requests // 8:,} requests, so without start and end, and "
            f"plain and ramson's the median of {REDIS_RUNS}. The others: the whole program from ld.so to exit, in millions, plain "
            f"and ramson's the median over {len(LAYOUTS)} lengths of the environment, which move the heap. "
            "Peers: profiling on against the same allocator without.")
    return Table("Programs, instructions", rows, note)


def failed_row(what, variant, error, is_gate):
    """A program that does not run under a variant is the worst result of all, but the other numbers are wanted too."""
    say(f"programs: {what}, {variant}: {error}")
    return Row(what, ramson="FAILED", ratio=f"{variant} does not run", target=TARGET, is_met=False, is_gate=is_gate)


def counted_row(what, series, scale=1.0):
    counts = {variant: only.median for variant, only in series.items()}
    ratio = counts["ramson"] / counts["plain"]
    peers = [f"{name} {ratio_in_percent(on / off)}" for name, off, on in peers_in(counts)]
    return Row(what, series["plain"].text(scale), series["ramson"].text(scale), ", ".join(peers) or "—",
               ratio_in_percent(ratio), TARGET, ratio <= TARGET_RATIO, is_gate=True)


def peers_in(values):
    """(name, off, on) of the allocators' profilers. Where the plain program is on that allocator, plain is off."""
    return [(name, values.get(name, values["plain"]), values[f"{name} prof"])
            for name in ("jemalloc", "tcmalloc") if f"{name} prof" in values]


def time_table(plan):
    rows = []
    rounds = plan.rounds(7, 3)
    requests = 200_000 if plan.is_quick else 500_000
    for name, variants in REDIS.items() if redis_server.is_installed() else ():
        say(f"programs: time, {name}")
        try:
            both = interleave(variants(), rounds, lambda environment: redis_server.timed_per_request(environment, requests))
        except MeasurementError as error:
            rows.append(failed_row(name, "some variant", error, is_gate=False))
            continue
        for index, command in enumerate(("SET", "GET")):
            only = {variant: series.only(index) for variant, series in both.items()}
            rows.append(timed_row(f"{name}, {command}, ns per request", only, 1))
    for program in programs(plan, is_counting=False):
        say(f"programs: time, {program.name}")
        series = interleave(program.variants, rounds, lambda environment:
                            cpu_seconds(program.command, environment, program.input_path))
        rows.append(timed_row(f"{program.name}, ms", series, 1e3))
    return Table("Programs, CPU time", rows, "Below 5–10% such times are noise: the table above decides.")


def timed_row(what, series, scale):
    peers = [f"{name} {ratio_in_percent((on / off).median)}" for name, off, on in peers_in(series)]
    ratio = series["ramson"] / series["plain"]
    low, high = (ratio_in_percent(extreme(ratio.values)) for extreme in (min, max))
    return Row(what, series["plain"].text(scale, 0), series["ramson"].text(scale, 0), ", ".join(peers) or "—",
               f"{ratio_in_percent(ratio.median)} ({low} – {high})")
