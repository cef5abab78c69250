"""Busy and large programs: is every number right there, and what does it cost? Beside other load and alone."""

import dataclasses
import math
import statistics
import struct
import threading
import time

import machine
from busy_programs import Busy, Java, Memcached, Node, Postgres, Redis, load, report, short_directory, tenth_of_a_core
from machine import say
from measure import STUDENT, MeasurementError, interval_of
from table import Row, Table

KIB, MIB = 1 << 10, 1 << 20
BETWEEN_LOOKS = 0.05
# The share that ramson takes before the governor has seen some of it is not the one that a process is held at.
SETTLED_SECONDS = 2
BOUND, HELD = 0.015, (0.007, 0.013)
IDLE_SECONDS = 300
NO_SAMPLES = 1 << 40
HEADER_BYTES, HEALTH = 4096, 2048
SAMPLES, DROPPED_STACKS, DROPPED_WALKS, SLOW_CYCLES = 0, 3, 4, 13


@dataclasses.dataclass
class Case:
    """`most`: the largest interval that passes, as a multiple of the one asked for. `bound` as for RAMSON_MAX_OVERHEAD. `beside`: what it is
    compared with."""
    what: str
    program: object
    interval: int
    most: float | None = None
    bound: str = "1"
    beside: str | None = "plain"
    least_error: float | None = None
    gates_cost: bool = False


def cases(plan):
    def large(full, quick):
        return plan.count(full, quick)
    grown, held, requests = large(12 << 10, 2 << 10), large(1024, 256), large(6_000_000, 1_000_000)
    return [
        Case(f"8 threads grow to {grown / 1024:.0f} GiB", Busy("grow", 8, grown), 512 * KIB, most=2, least_error=0.1, gates_cost=True),
        Case(f"8 threads grow to {grown * 5 // 4 / 1024:.1f} GiB", Busy("grow", 8, grown * 5 // 4), 512 * KIB, most=2, least_error=0.1,
             gates_cost=True),
        Case("redis, 50 clients, pipelined", Redis(held, requests), 64 * KIB, most=8, least_error=0.1, gates_cost=True),
        Case("2 MiB mapped 1,000 times a second", Busy("extents", large(10_000, 2_000)), 64 * KIB, most=1),
        Case("PostgreSQL, 32 clients", Postgres(large(400_000, 60_000)), 512 * KIB, most=1),
        Case("node, HTTP", Node(large(400_000, 60_000)), 512 * KIB, most=1),
        Case("java", Java(large(200_000, 60_000)), 512 * KIB),
        Case("memcached", Memcached(large(2_000_000, 500_000)), 512 * KIB, most=1),
        Case("64 threads allocate and free", Busy("pairs", 64, large(4_000_000, 500_000)), 512 * KIB),
    ]


def dominated(plan):
    """Loops in which nothing but samples costs: without a bound, compared with the same under hooks that take none, and held at the bound."""
    count = plan.count(400_000_000, 60_000_000)
    return [Case("malloc and free only, no bound, against hooks alone", Busy("pairs", 1, count), 4 * KIB, bound="off", beside="hooks"),
            Case("malloc and free only, held", Busy("pairs", 1, count * 2), 4 * KIB, beside=None)]


def many_threads(plan):
    """Far more busy threads than cores: whether samples have their stacks."""
    rounds, grown = plan.rounds(20, 4), plan.count(3 << 10, 512)
    for threads in (64, 256):
        for interval, mib in ((512 * KIB, grown), (64 * KIB, grown), (1, 256)):
            case = Case(f"{threads} threads grow", Busy("grow", threads, mib), interval, beside=None)
            say(f"busy: {case.what}, T = {interval}")
            runs = [run(case, "ramson") for _ in range(rounds)]
            lost, lives = worst(runs, "lost"), [one.live for one in runs]
            yield Row(f"{threads} threads grow to {mib} MiB, T = {interval:,} bytes: samples without a stack, the most of {rounds} runs",
                      ramson=percent(lost, 3), ratio=f"live / own truth {min(lives):.3f}–{max(lives):.3f}", target="≤ 0.1%", is_met=lost <= 1e-3)


@dataclasses.dataclass
class Look:
    """Into a profile's header."""
    time: float
    interval: int
    configured: int
    samples: int
    lost_stacks: int
    slow_cycles: int
    cycles_per_ns: float
    cpu_ns: int


def look(path):
    """One look at a profile; None: the profile is not finished, or gone."""
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
        pid, interval = struct.unpack_from("<IQ", header, 20)
        configured, = struct.unpack_from("<Q", header, 456)
        begin, begin_ns, end, end_ns = struct.unpack_from("<4Q", header, 472)
        health = struct.unpack_from("<19Q", header, HEALTH)
        # The clock of another process's CPU time. (clock_getcpuclockid)
        cpu_ns = time.clock_gettime_ns(~pid << 3 | 2)
    except (OSError, struct.error):
        return None
    rate = (end - begin) / (end_ns - begin_ns) if end_ns > begin_ns else 0.0
    # Without a decision for a second the next allocations have the interval asked for. (crates/analysis/src/interval.rs)
    if time.monotonic_ns() - end_ns > 1e9:
        interval = configured
    lost = health[DROPPED_STACKS] + health[DROPPED_WALKS]
    return Look(time.monotonic(), interval, configured, health[SAMPLES], lost, health[SLOW_CYCLES], rate, cpu_ns)


class Watch:
    """`with Watch(directory)`: looks into the headers of all profiles there."""

    def __init__(self, directory):
        self.directory, self.looks, self.is_over = directory, {}, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def follow(self):
        while not self.is_over.wait(BETWEEN_LOOKS):
            for path in self.directory.glob("*.ramson"):
                if found := look(path):
                    self.looks.setdefault(path, []).append(found)

    def all(self):
        return [found for looks in self.looks.values() for found in looks]

    def highest(self):
        """As a multiple of the interval asked for."""
        return max((found.interval / found.configured for found in self.all() if found.configured), default=math.nan)

    def share(self, after_seconds=0):
        """Share of all processes' CPU time, by ramson's own count."""
        slow_ns = cpu_ns = 0
        for looks in self.looks.values():
            settled = [found for found in looks if found.time - looks[0].time >= after_seconds and found.cycles_per_ns]
            if not settled:
                continue
            first, last = settled[0], settled[-1]
            before = (first.slow_cycles, first.cpu_ns) if after_seconds else (0, 0)
            slow_ns += (last.slow_cycles - before[0]) / last.cycles_per_ns
            cpu_ns += last.cpu_ns - before[1]
        return slow_ns / cpu_ns if cpu_ns else math.nan

    def lost(self):
        last = [looks[-1] for looks in self.looks.values()]
        samples = sum(found.samples for found in last)
        return sum(found.lost_stacks for found in last) / samples if samples else 0.0


@dataclasses.dataclass
class Run:
    cpu: float
    highest: float = math.nan
    share: float = math.nan
    settled_share: float = math.nan
    lost: float = math.nan
    error: float = math.nan
    rss: float = math.nan
    live: float = math.nan


def run(case, variant):
    with short_directory() as directory:
        profiles = directory / "profiles"
        profiles.mkdir(mode=0o755)
        settings = {"RAMSON_DIR": profiles, "RAMSON_MAX_OVERHEAD": case.bound}
        environment = {"plain": machine.environment(RAMSON_DIR=profiles), "hooks": machine.ramson(NO_SAMPLES, **settings),
                       "ramson": machine.ramson(case.interval, **settings)}[variant]
        program = case.program
        program.begin(environment, directory)
        try:
            with Watch(profiles) as watch:
                truth = program.work()
                if variant != "ramson":
                    return Run(program.end())
                time.sleep(2 * BETWEEN_LOOKS)
                answer = report_if_profiled(program.process.pid, profiles)
        finally:
            if program.process.returncode is None:
                cpu = program.end()
        found = Run(cpu, watch.highest(), watch.share(), watch.share(SETTLED_SECONDS), watch.lost())
        if answer:
            live = answer["live"]
            found.error = live["half_width_95"] / max(live["value"], 1)
            found.live = live["value"] / truth if truth else math.nan
            found.rss = difference_of_rss(answer)
        return found


def report_if_profiled(pid, profiles):
    try:
        return report(pid, profiles)
    except MeasurementError as error:
        say(f"busy: {error}")
        return None


def difference_of_rss(answer):
    """The terms' sum over the RSS that the report shows."""
    rss = answer.get("rss")
    return sum(term["value"] for term in rss["terms"].values()) / rss["bytes"] if rss else math.nan


def percent(share, digits=2):
    return "–" if math.isnan(share) else f"{share * 100:.{digits}f}%"


def worst(runs, name, pick=max):
    values = [getattr(one, name) for one in runs if not math.isnan(getattr(one, name))]
    return pick(values) if values else math.nan


HEAD = ("| program, load | T asked for | largest T | live ± | no stack | own count | CPU against plain | live / own truth | terms / RSS |\n"
        "|---|---|---|---|---|---|---|---|---|")


def measured(case, beside, rounds):
    """The runs of a case, a line of the table, and its gates."""
    plain, ours = [], []
    with load(beside):
        for number in range(rounds):
            say(f"busy: {case.what}, {beside}, {number + 1} of {rounds}")
            if case.beside:
                plain.append(run(case, case.beside).cpu)
            ours.append(run(case, "ramson"))
    what = f"{case.what}, {beside}"
    highest, error, share = worst(ours, "highest"), worst(ours, "error"), worst(ours, "share")
    lives = [one.live for one in ours if not math.isnan(one.live)]
    compared = "–"
    gates = []
    if plain:
        mean, low, high = interval_of([one.cpu / cpu - 1 for one, cpu in zip(ours, plain)])
        compared = f"{mean * 100:+.1f}% ({low * 100:+.1f} to {high * 100:+.1f})"
        if case.gates_cost:
            gates.append(Row(f"{what}: CPU against plain", ramson=compared, target="interval not above 1.5%", is_met=low <= BOUND))
    if case.most:
        gates.append(Row(f"{what}: T over the one asked for", ramson=f"{highest:.2f} ×", target=f"≤ {case.most:g} ×", is_met=highest <= case.most))
    if case.least_error:
        gates.append(Row(f"{what}: ± of live", ramson=percent(error), target="≤ 10%", is_met=error <= case.least_error))
    if case.gates_cost:
        gates.append(Row(f"{what}: own count", ramson=percent(share), target="< 1.5%", is_met=share < BOUND))
    live = f"{min(lives):.3f}–{max(lives):.3f}" if lives else "–"
    line = (f"| {what} | {case.interval // KIB} KiB | {highest:.2f} × | {percent(error)} | {percent(worst(ours, 'lost'), 3)} | {percent(share)} |"
            f" {compared} | {live} | {worst(ours, 'rss', min):.4f}–{worst(ours, 'rss'):.4f} |")
    return plain, ours, line, gates


def dominated_gates(case, plain, ours, beside):
    what = f"{case.what}, {beside}"
    if not case.beside:
        shares = [one.settled_share for one in ours]
        text = f"{percent(min(shares))} to {percent(max(shares))}"
        return [Row(f"{what}: own count after {SETTLED_SECONDS} s", ramson=text, target="0.7 to 1.3%",
                    is_met=HELD[0] <= min(shares) and max(shares) <= HELD[1])]
    # Ratio of sums, because one run's difference may be noise alone; the interval comes from leaving one run out at a time.
    pairs = list(zip(ours, plain))
    ratio = own_over_side(pairs)
    others = [own_over_side(pairs[:index] + pairs[index + 1:]) for index in range(len(pairs))]
    half = STUDENT.get(len(pairs) - 1, 2.0) * math.sqrt((len(pairs) - 1) * statistics.pvariance(others)) if len(pairs) > 1 else math.inf
    return [Row(f"{what}: own count over side by side", ramson=f"{ratio:.2f} (±{half:.2f})", target="0.8 to 1.2", is_met=0.8 <= ratio <= 1.2)]


def own_over_side(pairs):
    own = sum(one.share * one.cpu for one, _ in pairs)
    side = sum(one.cpu - cpu for one, cpu in pairs)
    return own / side if side > 0 else math.nan


def is_installed(case):
    missing = [name for name in case.program.NEEDS if not machine.has(name)]
    if missing:
        say(f"busy: {case.what}: NOT MEASURED, {missing[0]} is not installed")
    return not missing


def still(plan):
    """A redis that does nothing and one that has a tenth of a core, beside stress-ng and the first three cases: their interval stays."""
    idle, slow = (Case(what, Redis(64, requests), 64 * KIB) for what, requests in (("idle", 0), ("a tenth of a core", 0)))
    seconds = plan.count(IDLE_SECONDS, 20)
    found = {}
    with load("beside stress-ng"), tenth_of_a_core() as confine, short_directory() as first, short_directory() as second:
        watches = []
        for case, directory in ((idle, first), (slow, second)):
            (directory / "profiles").mkdir()
            case.program.begin(machine.ramson(case.interval, RAMSON_DIR=directory / "profiles"), directory)
            watches.append(Watch(directory / "profiles"))
        confine(slow.program.process.pid)
        time.sleep(2)
        with watches[0], watches[1]:
            slow.program.requests, end = 20_000, time.monotonic() + seconds
            client = threading.Thread(target=work_until, args=(slow.program, end))
            client.start()
            while time.monotonic() < end:
                for case in cases(plan)[:3]:
                    run(case, "ramson")
            client.join()
        for case, watch in zip((idle, slow), watches):
            case.program.end()
            found[case.what] = watch.highest()
    return [Row(f"redis, {what}, for {seconds} s beside stress-ng: T", ramson=f"{highest:.2f} ×", target="unchanged", is_met=highest == 1)
            for what, highest in found.items()]


def work_until(program, end):
    while time.monotonic() < end:
        program.work()


def tables(plan):
    if plan.is_check:
        return
    machine.compile_c(machine.PROGRAMS / "busy.c", "busy", "-pthread")
    rounds, lines, gates = plan.rounds(10, 2), [], []
    for beside in ("alone", "beside stress-ng"):
        for case in [*filter(is_installed, cases(plan)), *dominated(plan)]:
            try:
                plain, ours, line, own_gates = measured(case, beside, rounds)
            except MeasurementError as error:
                say(f"busy: {case.what}: NOT MEASURED: {error}")
                continue
            lines.append(line)
            gates += own_gates
            if case.interval == 4 * KIB:
                gates += dominated_gates(case, plain, ours, beside)
            say(line)
            for gate in own_gates:
                say(gate.markdown())
    gates += [*many_threads(plan), *still(plan)]
    note = (f"{rounds} runs of each, interleaved with plain; T, ±, samples without a stack and the own count are the largest, CPU the mean with its "
            "95% interval, live and terms the least and the largest.\n\n" + "\n".join([HEAD, *lines]))
    yield Table("Busy programs", gates, note)
