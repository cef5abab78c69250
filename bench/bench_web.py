"""The page: ramson serve, `go tool pprof -http` and speedscope on one profile of a million stacks, in Chromium."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import machine
from machine import say
from measure import MeasurementError
from table import EMPTY, Row, Table

HERE = machine.ROOT / "bench/web"
SPEEDSCOPE = "1.25.0"
PPROF_PORT = 7833
# Most seconds for one step of a viewer.
MOST_SECONDS = 60


def tables(plan):
    if not plan.is_check:
        yield web_table(plan)


def web_table(plan):
    stacks = plan.count(1_000_000, 100_000)
    profile = make_profile(stacks)
    prepare()
    measured = {"ramson serve": with_ramson(profile)}
    if machine.has("go"):
        measured["go tool pprof -http"] = with_pprof(profile)
    measured["speedscope"] = with_speedscope(profile)
    rows = [row(*words, measured) for words in (
        ("first flame graph of a server that has just started, ms", "first_started", 2000),
        ("first flame graph, nothing read yet, ms", "first_cold", 2000),
        ("first flame graph after the click, names and tree known, ms", "first_warm", 300),
        ("zoom, ms", "zoom", 50),
        ("search, ms", "search", 50),
        ("frames a second while zooming", "frames", -60),
        ("largest answer for a view, bytes", "bytes", 64_000),
        ("RSS of the server then, MiB", "rss", None),
        ("its largest RSS, MiB", "peak", None),
    )]
    return Table(f"The page on {stacks:,} stacks", rows,
                 f"pprof file of {profile.stat().st_size / 1e6:,.0f} MB; from the click to the frame that shows it, medians. {browser()},"
                 f" drawing without a GPU; {tool_version()}, speedscope {SPEEDSCOPE}. Load average {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores."
                 f" {EMPTY}: it has none; >: longer than a step may take.")


def row(what, name, most, measured):
    texts = {viewer: text(found, name) for viewer, found in measured.items()}
    own = measured["ramson serve"].get(name)
    peers = "; ".join(f"{viewer} {texts[viewer]}" for viewer in texts if viewer != "ramson serve" and texts[viewer] != EMPTY)
    is_met = None if most is None or own is None else round(own) >= -most if most < 0 else own <= most
    target = EMPTY if most is None else f"≥ {-most}" if most < 0 else f"≤ {most:,}"
    return Row(what, ramson=texts["ramson serve"], peers=peers or EMPTY, target=target, is_met=is_met)


def text(found, name):
    if name not in found:
        return EMPTY
    return f"> {MOST_SECONDS:,} s" if found[name] is None else f"{found[name]:,.0f}"


def make_profile(stacks):
    """The same stacks for all: a pprof file that ramson writes from collapsed ones."""
    collapsed, profile = machine.BUILT / "web.collapsed", machine.BUILT / f"web-{stacks}.pb.gz"
    if not profile.exists():
        say(f"web: a profile of {stacks:,} stacks")
        with open(collapsed, "wb") as out:
            subprocess.run([sys.executable, machine.ROOT / "bench/million_stacks.py", str(stacks)], stdout=out, check=True)
        subprocess.run([machine.RAMSON, "export", collapsed, "-f", "pprof", "-o", profile, "--force"],
                       env=machine.environment(), check=True)
        collapsed.unlink()
    return profile


def prepare():
    if not (machine.ROOT / "web/node_modules/playwright-core").exists():
        subprocess.run(["make", "--no-print-directory", "web/node_modules/.locked"], cwd=machine.ROOT, check=True, stdout=sys.stderr)
    if not speedscope().exists():
        subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", machine.BUILT / "speedscope", f"speedscope@{SPEEDSCOPE}"],
                       check=True, stdout=sys.stderr)


def speedscope():
    return machine.BUILT / "speedscope/node_modules/speedscope/dist/release/index.html"


def browser():
    return machine.output_of("chromium", "--version").removesuffix(" built on Debian").split(",")[0].strip()


def tool_version():
    version = machine.output_of("go", "version").split()
    return f"Go {version[2].removeprefix('go')}" if len(version) > 2 else "without Go"


def look(viewer, address, *words):
    """Measurements of a viewer."""
    say(f"web: {viewer}")
    finished = subprocess.run(["node", HERE / "measure.mjs", viewer, address, *map(str, words)], capture_output=True, text=True,
                              env=os.environ | {"MOST_MS": str(MOST_SECONDS * 1000)})
    sys.stderr.write(finished.stderr)
    if finished.returncode != 0:
        raise MeasurementError(f"{viewer}: {finished.stderr[-1000:]}")
    return json.loads(finished.stdout)


def memory(pid):
    """MiB now, and at most so far."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    of = lambda name: int(re.search(rf"{name}:\s+(\d+)", status).group(1)) / 1024
    return {"rss": of("VmRSS"), "peak": of("VmHWM")}


@contextlib.contextmanager
def running(command, **options):
    child = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def with_ramson(profile):
    cache = machine.BUILT / "cache"
    command = [machine.RAMSON, "serve", "--listen", "127.0.0.1:0", profile]
    with running(command, env=machine.environment(XDG_CACHE_HOME=cache), stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        return look("ramson", address, profile) | memory(server.pid)


def with_pprof(profile):
    address = f"http://127.0.0.1:{PPROF_PORT}/"
    # The program that `go tool pprof` runs: `go tool pprof` itself would be a parent of it.
    program = machine.output_of("go", "tool", "-n", "pprof")
    with running([program, "-http", f"127.0.0.1:{PPROF_PORT}", "-no_browser", profile], stderr=subprocess.DEVNULL) as server:
        begin = time.monotonic()
        while not answers(address):
            if time.monotonic() - begin > MOST_SECONDS or server.poll() is not None:
                return {"first_cold": None} | (memory(server.pid) if server.poll() is None else {})
            time.sleep(0.1)
        read = (time.monotonic() - begin) * 1000
        found = look("pprof", address)
        # It reads the profile before it answers at all.
        if found.get("first_cold") is not None:
            found["first_cold"] += read
        return found | memory(server.pid)


def answers(address):
    """Whether something listens there."""
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    return shutil.which("curl") and subprocess.run(["curl", "-s", "-o", "/dev/null", f"http://{host}:{port}/nothing"]).returncode == 0


def with_speedscope(profile):
    return look("speedscope", speedscope().as_uri(), profile)
