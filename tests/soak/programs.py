"""The programs of the soak. Each starts, is loaded until told to stop, and tells its results: equal ones for equal runs."""

import glob
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSIDE = pathlib.Path(os.environ.get("PLACE", ROOT / "target/inside-programs"))

START_SECONDS = 60
END_SECONDS = 120


def output_of(command, timeout=600, **options):
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, **options)
    if finished.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {finished.returncode}: {finished.stderr.strip()[-300:]}")
    return finished.stdout


class Program:
    """One running instance, in a directory of its own. `environment` is that of the program, not of its load."""

    # Threads that can be in the middle of an allocation when a process is stopped.
    threads = 8
    interval = "64K"
    has_memory_bound = True

    def __init__(self, directory, environment, seconds):
        self.directory, self.environment, self.seconds = directory, environment, seconds
        self.is_over = threading.Event()
        self.fault = None
        self.process = None
        try:
            self.start()
        except Exception:
            self.kill()
            raise
        self.loader = threading.Thread(target=self.keep_loaded, daemon=True)
        self.loader.start()

    def spawn(self, command, **options):
        log = open(self.directory / "log", "wb")
        command = [str(part) for part in command]
        self.process = subprocess.Popen(command, env=self.environment, stderr=log, **{"stdout": log, **options})

    def wait_until(self, is_ready):
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"did not start: {(self.directory / 'log').read_text(errors='replace')[-500:]}")
            time.sleep(0.1)

    def keep_loaded(self):
        try:
            while not self.is_over.is_set():
                self.load()
        except Exception as error:  # Reported at the end, with the others.
            self.fault = f"load: {error}"

    def stop_load(self):
        self.is_over.set()
        self.loader.join(600)

    def load(self):
        self.is_over.wait()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Redis(Program):
    """redis-server: some data that stays, and benchmarks in another database that go. DBSIZE and DEBUG DIGEST of what stays."""

    def start(self):
        self.socket = self.directory / "socket"
        self.spawn(["redis-server", "--port", 0, "--unixsocket", self.socket, "--save", "", "--appendonly", "no",
                    "--enable-debug-command", "yes", "--dir", self.directory])
        self.wait_until(self.socket.exists)
        self.fill(0)

    def fill(self, part):
        lines = []
        for i in range(part, 100_000, 2):
            lines.append(f"SET key:{i} {'v' * (1 + i % 400)}")
            lines.append(f"RPUSH list:{i % 500} {i}")
            lines.append(f"HSET hash:{i % 3000} {i} {i * i}")
            lines.append(f"ZADD sorted:{i % 70} {i * 7919 % 10007} {i}")
        output_of(["redis-cli", "-s", self.socket, "--pipe"], input="\n".join(lines))

    def load(self):
        tests = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset"
        output_of(["redis-benchmark", "-s", self.socket, "--dbnum", 1, "-q", "-t", tests, "-n", 20000, "-c", 8, "-P", 8,
                   "-r", 50000, "-d", 200])
        output_of(["redis-cli", "-s", self.socket, "-n", 1, "flushdb"])

    def results(self):
        self.fill(1)
        output_of(["redis-cli", "-s", self.socket, "-n", 1, "flushdb"])
        return [output_of(["redis-cli", "-s", self.socket, *command]).strip() for command in (["dbsize"], ["debug", "digest"])]

    def end(self):
        self.process.terminate()
        return self.process.wait(END_SECONDS)


class PostgreSQL(Program):
    """PostgreSQL with pgbench, as its own user: it refuses to be root. Every transaction's sum is in all four tables."""

    threads = 2

    def start(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
        if not found:
            raise RuntimeError("PostgreSQL is missing: apt-get install postgresql postgresql-contrib")
        self.bin, self.data = pathlib.Path(found[-1]).parent, self.directory / "data"
        self.user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        if self.user:
            for path in (self.directory, pathlib.Path(self.environment["RAMSON_DIR"])):
                shutil.chown(path, "postgres", "postgres")
        # Only the server is profiled.
        self.outside = {name: value for name, value in self.environment.items() if name != "LD_PRELOAD"}
        self.outside |= {"PGHOST": str(self.directory), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        self.run("initdb", "-D", self.data, "-U", "postgres", "--no-sync", "-A", "trust")
        self.spawn([self.bin / "postgres", "-D", self.data, "-k", self.directory, "-c", "listen_addresses=", "-c", "fsync=off"],
                   **self.user)
        self.wait_until(self.is_ready)
        self.run("pgbench", "-i", "-q", "-s", 4)

    def is_ready(self):
        asked = [self.bin / "pg_isready", "-q", "-h", self.directory]
        return subprocess.run(asked, env=self.outside, cwd=self.directory, **self.user).returncode == 0

    def run(self, name, *arguments, **options):
        return output_of([self.bin / name, *arguments], **options, env=self.outside, cwd=self.directory, **self.user)

    def load(self):
        # Sessions as long as the soak: a backend's memory could grow.
        self.run("pgbench", "-n", "-c", 4, "-j", 2, "-T", int(max(1, self.seconds)), timeout=self.seconds + 600)
        self.is_over.wait()

    def results(self):
        sums = self.run("psql", "-At", "-c", "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from "
                        "pgbench_branches), (select sum(tbalance) from pgbench_tellers), (select sum(delta) from pgbench_history), "
                        "(select count(*) > 0 from pgbench_history)").strip().split("|")
        return [len(set(sums[:4])) == 1, sums[4]]

    def end(self):
        self.process.terminate()
        return self.process.wait(END_SECONDS)


class Torture(Program):
    """torture.cc: checksums of its rounds, as far as both came."""

    threads = 5

    def start(self):
        self.out = self.directory / "out"
        self.spawn([TORTURE, int(self.seconds)], stdin=subprocess.PIPE, stdout=open(self.out, "wb"))

    def stop_load(self):
        super().stop_load()
        deadline = time.monotonic() + END_SECONDS
        while "live" not in self.out.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.fault = f"did not finish: status {self.process.poll()}"
                return
            time.sleep(0.2)

    def true_live_bytes(self):
        return int(self.out.read_text().split("live ")[1])

    def results(self):
        return self.out.read_text().split("live")[0].splitlines()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(END_SECONDS)


class ExactTorture(Torture):
    """The same, with every allocation recorded."""

    interval = "1"
    # It is stated for samples, not for a record of every block.
    has_memory_bound = False


class Inside(Program):
    """A program with an allocator in it, as `tests/inside/programs` installs it: the results of its rounds, as far as both came."""

    def __init__(self, directory, environment, seconds):
        self.rounds = []
        super().__init__(directory, environment | {"RAMSON_INSIDE": "on"}, seconds)

    def start(self):
        if not self.program.exists():
            raise RuntimeError(f"{self.program} is missing: make test-inside")
        self.spawn_it()

    def results(self):
        return self.rounds

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(END_SECONDS)


class Polars(Inside):
    """polars with its jemalloc: a query each round, in one process."""

    program = INSIDE / "python/bin/python"

    def spawn_it(self):
        self.environment |= {"POLARS_MAX_THREADS": "2"}
        self.spawn([self.program, "-c", QUERIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # Python's compiler, which runs once, has thousands of stacks.
        self.load()

    def load(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        self.rounds.append(self.process.stdout.readline())
        if not self.rounds[-1]:
            raise RuntimeError((self.directory / "log").read_text(errors="replace")[-500:])

    def end(self):
        self.process.stdin.close()
        return self.process.wait(END_SECONDS)


class Anvil(Inside):
    """anvil, a Rust server with jemalloc: a chain of blocks each round, which is dropped at its end."""

    program = INSIDE / "node/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"

    def spawn_it(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.spawn([self.program, "--silent", "--port", self.port, "--no-mining", "--timestamp", 1700000000])
        self.wait_until(self.is_ready)

    def is_ready(self):
        try:
            return self.call("eth_chainId") == "0x7a69"
        except OSError:
            return False

    def call(self, method, *parameters):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)["result"]

    def load(self):
        one, other = self.call("eth_accounts")[:2]
        for value in range(300):
            self.call("eth_sendTransaction", {"from": one, "to": other, "value": hex(value)})
            self.call("evm_mine")
        block = self.call("eth_getBlockByNumber", "0x12c", True)
        self.rounds.append([self.call("eth_blockNumber"), self.call("eth_getBalance", other, "latest"), len(block["transactions"])])
        self.call("anvil_reset")


QUERIES = """
import polars as pl, sys
d = pl.DataFrame({'a': range(200000), 'b': [str(i % 1000) for i in range(200000)]})
for i, line in enumerate(sys.stdin):
    g = d.group_by('b').agg((pl.col('a') * i).sum()).sort('b')
    j = d.join(g, on='b', suffix='g').with_columns((pl.col('a') * 3).cast(pl.String).str.reverse().alias('r')).sort('r', 'a')
    print(g.head(2).rows(), j['ag'].sum(), j.tail(2).rows(), flush=True)
"""
TORTURE = ROOT / "target/soak/torture"
PROGRAMS = {"redis": Redis, "postgresql": PostgreSQL, "torture": Torture, "torture_exact": ExactTorture, "polars": Polars, "anvil": Anvil}
