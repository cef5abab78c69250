"""A redis server to measure: started for one measurement, loaded over a Unix socket by one client, stopped."""

import pathlib
import subprocess
import time

import machine
from measure import MeasurementError, callgrind_command, collected, run

SOCKET = machine.BUILT / "redis.sock"
NEEDS = ("redis-server", "redis-cli", "redis-benchmark")
# One thread, no timers beyond one a second, nothing written.
OPTIONS = ["--port", 0, "--unixsocket", SOCKET, "--save", "", "--appendonly", "no", "--io-threads", 1, "--hz", 1,
           "--dynamic-hz", "no", "--jemalloc-bg-thread", "no", "--daemonize", "no", "--dir", machine.BUILT,
           "--enable-debug-command", "yes"]
VALUE_BYTES = 100
START_SECONDS = 60
# Work that redis does by the clock would count differently on a slower or busier machine: above all, redis shrinks and grows a client's
# reply buffer once a second.
BY_THE_CLOCK = (["replybuffer", "resizing", 0], ["set-active-expire", 0])


def is_installed():
    return all(machine.has(command) for command in NEEDS)


def over_jemalloc():
    """As Debian builds it. Its jemalloc is the system's and has the profiler compiled in."""
    return {"plain": machine.environment(), "ramson": machine.ramson(),
            "jemalloc prof": machine.jemalloc(is_profiling=True, preload=False)}


def over_glibc():
    """With the C library's malloc in front of jemalloc's; tcmalloc in their place for its profiler."""
    found = {"plain": machine.environment(LD_PRELOAD=machine.C_LIBRARY), "ramson": machine.ramson(over=machine.C_LIBRARY)}
    return found | {name: environment for name, environment in machine.peers().items() if "tcmalloc" in name}


class Server:
    """`with Server(environment)`: a running server."""

    def __init__(self, environment, is_counted=False, options=()):
        preload = f"{machine.BUILT / 'fixed_random.so'} {environment.get('LD_PRELOAD', '')}".strip()
        self.environment, self.is_counted = environment | {"LD_PRELOAD": preload}, is_counted
        self.command = [str(part) for part in ["redis-server", *OPTIONS, *options]]
        if is_counted:
            self.command, self.out, self.log = callgrind_command(self.command, "redis")

    def __enter__(self):
        SOCKET.unlink(missing_ok=True)
        self.process = subprocess.Popen(self.command, env=self.environment, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not SOCKET.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise MeasurementError(f"redis-server did not start: {self.command}")
            time.sleep(0.02)
        for setting in BY_THE_CLOCK:
            answer = run(["redis-cli", "-s", SOCKET, "debug", *setting], machine.environment()).strip()
            if answer != "OK":
                machine.say(f"redis-server: debug {setting[0]}: {answer}; its counts may vary with the machine's load")
        return self

    def __exit__(self, *_):
        subprocess.run(["redis-cli", "-s", SOCKET, "shutdown", "nosave"], env=machine.environment(), capture_output=True)
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def load(self, command, requests):
        run(["redis-benchmark", "-s", SOCKET, "-q", "-t", command, "-n", requests, "-c", 1, "-P", 16, "-d", VALUE_BYTES],
            machine.environment())

    def cpu_ns(self):
        """CPU time of all threads of the server so far."""
        tasks = (pathlib.Path("/proc") / str(self.process.pid) / "task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def counted_per_request(environment, requests):
    """Instructions per SET and per GET: differences of runs, so that neither the start nor the end counts."""
    few = requests // 8

    def total(gets, sets):
        with Server(environment, is_counted=True) as server:
            server.load("set", sets)
            if gets:
                server.load("get", gets)
        return collected(environment, server.out, server.log)[0]

    base = total(0, few)
    return [(total(0, few + requests) - base) / requests, (total(requests, few) - base) / requests]


def timed_per_request(environment, requests):
    """CPU nanoseconds of the server per SET and per GET."""
    spent = []
    with Server(environment) as server:
        server.load("set", requests // 10)
        for command in ("set", "get"):
            before = server.cpu_ns()
            server.load(command, requests)
            spent.append((server.cpu_ns() - before) / requests)
    return spent
