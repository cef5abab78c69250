"""Programs as people run them, busy: each is started, given a fixed amount of work, and ended, under ramson or without."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import machine
from measure import MeasurementError, results_of

BUSY = machine.BUILT / "busy"
END_SECONDS = 60
POSTGRES = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
VALUE_BYTES = 200

NODE = """
const ring = new Array(20000); let count = 0;
require("http").createServer((request, response) => {
  const text = JSON.stringify({ number: count, path: request.url, list: [1, 2, 3] });
  ring[count++ % ring.length] = Buffer.from(text.repeat(20));
  response.end(text);
}).listen("node.sock");
"""
JAVA = """
import java.nio.ByteBuffer; import java.util.zip.Deflater;
class Busy { public static void main(String[] a) throws Exception {
  ByteBuffer[] ring = new ByteBuffer[4000]; byte[] out = new byte[4096], in = new byte[4096]; long sum = 0;
  for (int i = 0; i < COUNT; i++) {
    ring[i % ring.length] = ByteBuffer.allocateDirect(1000 + i * 7919 % 30000);
    if (i % 16 == 0) { Deflater d = new Deflater(1); d.setInput(in); d.finish(); sum += d.deflate(out); d.end(); }
    if (i % 2000 == 0) System.gc();
  }
  System.out.println("result 0"); System.in.read();
} }
"""


class Program:
    """One process, or a server with its children. `begin` starts it, `work` returns when it is done, `truth` is what it holds."""
    NEEDS = ()

    def command(self, directory):
        raise NotImplementedError

    def begin(self, environment, directory):
        self.process = subprocess.Popen([str(part) for part in self.command(directory)], env=environment, cwd=directory,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def work(self):
        """Returns the program's own count of live bytes, None if it has none."""
        line = self.process.stdout.readline().decode()
        return results_of(line)[0] or None

    def stop(self):
        self.process.stdin.close()

    def end(self):
        """CPU seconds of the process and of the children that it waited for."""
        self.stop()
        deadline = time.monotonic() + END_SECONDS
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_utime + usage.ru_stime
            if time.monotonic() > deadline:
                self.process.kill()
            time.sleep(0.02)


class Busy(Program):
    """bench/programs/busy.c."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def command(self, directory):
        return [BUSY, *self.arguments]


class Java(Program):
    """Direct buffers and deflaters, which use the C library's malloc."""
    NEEDS = ("java",)

    def __init__(self, count):
        self.count = count

    def command(self, directory):
        (directory / "Busy.java").write_text(JAVA.replace("COUNT", str(self.count)))
        return ["java", "-Xmx256m", "-XX:MaxDirectMemorySize=512m", "Busy.java"]


class Node(Program):
    """Answers HTTP requests, pipelined over one connection."""
    NEEDS = ("node",)
    REQUEST = b"GET /answer HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def __init__(self, requests):
        self.requests = requests

    def command(self, directory):
        self.socket = directory / "node.sock"
        (directory / "busy.js").write_text(NODE)
        return ["node", "busy.js"]

    def begin(self, environment, directory):
        super().begin(environment, directory)
        wait_for(self.socket.exists, self.process)

    def work(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket))
            for _ in range(self.requests // 100):
                client.sendall(self.REQUEST * 100)
                answers = b""
                while answers.count(b"HTTP/1.1 200") < 100:
                    answers += client.recv(1 << 16)

    def stop(self):
        self.process.terminate()


class Redis(Program):
    """Holds `mib`, then answers `requests`, pipelined, from 50 clients."""
    NEEDS = ("redis-server", "redis-benchmark", "redis-cli")

    def __init__(self, mib, requests):
        self.keys, self.requests = mib * 1024 * 1024 // 300, requests

    def command(self, directory):
        self.socket = directory / "redis.sock"
        return ["redis-server", "--port", 0, "--unixsocket", self.socket, "--save", "", "--appendonly", "no",
                "--enable-debug-command", "yes"]

    def client(self, *arguments):
        command = [str(part) for part in arguments]
        return subprocess.run(command, env=machine.environment(), check=True, capture_output=True, text=True).stdout

    def begin(self, environment, directory):
        super().begin(environment, directory)
        wait_for(self.socket.exists, self.process)
        if self.keys:
            self.client("redis-cli", "-s", self.socket, "debug", "populate", self.keys, "key", VALUE_BYTES)

    def work(self):
        if self.requests:
            self.client("redis-benchmark", "-s", self.socket, "-q", "-t", "set", "-c", 50, "-P", 16, "-n", self.requests,
                        "-r", max(self.keys, 100_000), "-d", VALUE_BYTES)
        # Its own count is of what the allocator made of its requests, a tenth more.

    def stop(self):
        subprocess.run(["redis-cli", "-s", str(self.socket), "shutdown", "nosave"], env=machine.environment(), capture_output=True)


class Memcached(Program):
    """Sets pipelined values over one connection."""
    NEEDS = ("memcached",)

    def __init__(self, requests):
        self.requests = requests

    def command(self, directory):
        self.socket = directory / "memcached.sock"
        return ["memcached", "-u", "root", "-m", 512, "-t", 4, "-s", self.socket]

    def begin(self, environment, directory):
        super().begin(environment, directory)
        wait_for(self.socket.exists, self.process)

    def work(self):
        value = b"x" * VALUE_BYTES
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket))
            for first in range(0, self.requests, 1000):
                client.sendall(b"".join(b"set key%d 0 0 %d noreply\r\n%s\r\n" % (number, len(value), value)
                                        for number in range(first, first + 1000)))
            client.sendall(b"version\r\n")
            client.recv(100)

    def stop(self):
        self.process.terminate()


class Postgres(Program):
    """Clients of pgbench over a Unix socket, each with a server process; `options` of pgbench."""
    NEEDS = ("pgbench",)

    def __init__(self, transactions, clients=32, options=()):
        self.transactions, self.clients, self.options = transactions, clients, options

    def begin(self, environment, directory):
        self.directory, owner = directory, pwd.getpwnam("postgres")
        self.user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        for path in (directory, pathlib.Path(environment["RAMSON_DIR"])):
            path.mkdir(parents=True, exist_ok=True)
            if self.user:
                shutil.chown(path, "postgres")
        self.run(POSTGRES / "initdb", "-D", "data", "--no-sync", "-A", "trust")
        command = [str(POSTGRES / "postgres"), "-D", "data", "-k", str(directory), "-c", "listen_addresses=", "-c", "fsync=off"]
        self.process = subprocess.Popen(command, env=environment, cwd=directory, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, **self.user)
        wait_for((directory / ".s.PGSQL.5432").exists, self.process)
        time.sleep(1)
        self.run("pgbench", "-h", directory, "-i", "-q", "-s", 5, "postgres")

    def run(self, *command):
        subprocess.run([str(part) for part in command], env=machine.environment(), cwd=self.directory, check=True,
                       capture_output=True, **self.user)

    def work(self):
        self.run("pgbench", "-h", self.directory, "-S", "-c", self.clients, "-j", 2, "-t", self.transactions // self.clients, *self.options,
                 "postgres")

    def stop(self):
        self.process.send_signal(signal.SIGINT)


def wait_for(is_there, process):
    deadline = time.monotonic() + END_SECONDS
    while not is_there():
        if process.poll() is not None or time.monotonic() > deadline:
            raise MeasurementError(f"{process.args[0]} did not start")
        time.sleep(0.05)


@contextlib.contextmanager
def short_directory():
    """A Unix socket's path has room for 107 bytes. Open to the user that PostgreSQL runs as."""
    with tempfile.TemporaryDirectory(prefix="ramson-busy-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@contextlib.contextmanager
def load(name):
    """Other load that runs on the machine."""
    if name == "alone":
        yield
        return
    stress = subprocess.Popen(["stress-ng", "--cpu", "4", "--quiet"], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(stress.pid, signal.SIGKILL)
        stress.wait()


@contextlib.contextmanager
def tenth_of_a_core():
    """A control group; a function that puts a process there."""
    v1 = pathlib.Path("/sys/fs/cgroup/cpu")
    group = (v1 if v1.exists() else pathlib.Path("/sys/fs/cgroup")) / f"ramson-busy-{os.getpid()}"
    group.mkdir()
    try:
        if v1.exists():
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("10000")
        else:
            (group / "cpu.max").write_text("10000 100000")
        yield lambda pid: (group / "cgroup.procs").write_text(str(pid))
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def report(pid, directory):
    """The report of a process."""
    finished = subprocess.run([str(machine.RAMSON), "report", str(pid), "--json"], capture_output=True, text=True,
                              env=machine.environment(RAMSON_DIR=directory))
    if finished.returncode != 0:
        raise MeasurementError(f"report of {pid}: {finished.stderr.strip()}")
    return json.loads(finished.stdout)
