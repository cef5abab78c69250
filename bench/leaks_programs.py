"""Real programs for `bench/run leaks`: releases with a documented leak, and servers and interpreters without one, each under a light load."""

import dataclasses
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import machine
from machine import say
from measure import MeasurementError

INTERVAL_BYTES = 64 << 10
REDIS_PORT, MEMCACHED_PORT, NGINX_PORT = 28431, 28432, 28433
# The port of app.js.
NODE_PORT = 17004
CASES = pathlib.Path(__file__).resolve().parent.parent / "tests/accept/programs"
PAUSE_SECONDS = 0.1
VALUE = 2000
KEYS = 40_000
LEAKY_PACKAGES = {"ujson": "ujson==5.12.0", "msgpack": "msgpack==1.2.2"}

PYTHON = f"import sys, time\nsys.path.insert(0, sys.argv[1])\n{{setup}}\nwhile True:\n    {{step}}\n    time.sleep({PAUSE_SECONDS})\n"
# Before 5.12.1 `dump` forgets the text that it could not write.
UJSON = PYTHON.format(setup="""import ujson
class Full:
    def write(self, text): raise OSError('disk full')
def step():
    try: ujson.dump({'k': 'x' * 20000}, Full())
    except OSError: pass""", step="step()")
# Before 1.2.3 `unpackb` forgets what it was building when a key is refused.
MSGPACK = PYTHON.format(setup="""import msgpack
packed = msgpack.packb({b'k' * 20000: 1, 5: 'x' * 20000})
def step():
    try: msgpack.unpackb(packed)
    except ValueError: pass""", step="step()")
PYTHON_CACHE = PYTHON.format(setup="""import functools, random
@functools.lru_cache(1000)
def page(number): return bytearray(5000)""", step="[page(random.randrange(5000)) for _ in range(30)]")
PYTHON_SQLITE = PYTHON.format(setup="""import sqlite3
base = sqlite3.connect(':memory:')
base.execute('create table log (number integer primary key, text)')
number = 0
def step():
    global number
    for _ in range(50):
        number += 1
        base.execute('insert into log values (?, ?)', (number, 'x' * 1000))
        base.execute('delete from log where number < ?', (number - 3000,))
    base.commit()""", step="step()")
NODE = """const kept = new Map(); let number = 0;
setInterval(() => { for (let i = 0; i < 20; i++) { kept.set(number++, Buffer.alloc(20000));
  if (kept.size > 500) kept.delete(kept.keys().next().value); } }, 100);"""
JAVA = """public class Ring {
  public static void main(String[] arguments) throws Exception {
    var kept = new java.nio.ByteBuffer[500];
    for (int number = 0; ; Thread.sleep(10)) {
      kept[number++ % kept.length] = java.nio.ByteBuffer.allocateDirect(20000);
      if (number % 1000 == 0) System.gc();
    }
  }
}"""
PERL = """my (%kept, $n); while (1) { for (1..30) { $kept{++$n} = 'x' x 5000; delete $kept{$n - 1000}; } select undef, undef, undef, 0.1 }"""
LUA = """local kept, n = {}, 0
while true do for _ = 1, 2000 do n = n + 1; kept[n % 1000] = ('x'):rep(3000) .. n end os.execute('sleep 0.1') end"""
BASH = "while :; do for i in {1..200}; do words[i]=$(printf '%2000s' $i); done; sleep 1; done"


@dataclasses.dataclass
class Program:
    """`leak`: expression for frames of its leak, None if it has none. `options`: of `ramson run`."""
    name: str
    command: list
    leak: str | None = None
    load: object = None
    options: tuple = ()


def redis_load():
    with socket.create_connection(("127.0.0.1", REDIS_PORT)) as server:
        for number in range(1 << 40):
            key = (number * 2_654_435_761) % KEYS
            text = b"*3\r\n$3\r\nSET\r\n$%d\r\n%d\r\n$%d\r\n%s\r\n" % (len(str(key)), key, VALUE, b"x" * VALUE)
            server.sendall(text)
            server.recv(100)
            time.sleep(PAUSE_SECONDS / 30)


def memcached_load():
    with socket.create_connection(("127.0.0.1", MEMCACHED_PORT)) as server:
        for number in range(1 << 40):
            server.sendall(b"set %d 0 0 %d\r\n%s\r\n" % (number % KEYS, VALUE, b"x" * VALUE))
            server.recv(100)
            time.sleep(PAUSE_SECONDS / 30)


def nginx_load():
    while True:
        client = http.client.HTTPConnection("127.0.0.1", NGINX_PORT)
        client.request("GET", "/")
        client.getresponse().read()
        client.close()
        time.sleep(PAUSE_SECONDS / 5)


def node_load():
    while True:
        client = http.client.HTTPConnection("127.0.0.1", NODE_PORT)
        client.request("GET", "/")
        client.getresponse().read()
        client.close()
        time.sleep(PAUSE_SECONDS)


def programs(directory):
    """All of them, with what they need made in `directory`."""
    packages = {name: install(name, package, directory) for name, package in LEAKY_PACKAGES.items()}
    (directory / "nginx.conf").write_text(
        f"daemon off; master_process off; error_log stderr; pid {directory}/nginx.pid; events {{}}\n"
        f"http {{ access_log off; server {{ listen 127.0.0.1:{NGINX_PORT}; location / {{ return 200 'x'; }} }} }}\n")
    java = directory / "Ring.java"
    java.write_text(JAVA)
    python = lambda text, package="": [sys.executable, "-c", text, str(packages.get(package, directory))]
    return [
        Program("ujson 5.12.0, dump to a full disk", python(UJSON, "ujson"), "ujson|objToJSON"),
        Program("msgpack 1.2.2, key that is refused", python(MSGPACK, "msgpack"), "msgpack"),
        Program("redis with maxmemory", ["redis-server", "--port", str(REDIS_PORT), "--save", "", "--maxmemory", "30mb",
                                         "--maxmemory-policy", "allkeys-lru", "--dir", str(directory)], load=redis_load),
        Program("memcached", ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(MEMCACHED_PORT), "-m", "16"], load=memcached_load),
        Program("nginx", ["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf")], load=nginx_load),
        Program("node with a cache", ["node", "-e", NODE]),
        Program("python with lru_cache", python(PYTHON_CACHE)),
        Program("sqlite in python", python(PYTHON_SQLITE)),
        Program("perl with a cache", ["perl", "-e", PERL]),
        Program("luajit with a ring", ["luajit", "-e", LUA]),
        Program("bash with a table", ["bash", "-c", BASH]),
        Program("java with a ring of buffers", ["java", "-Xmx64m", str(java)]),
        Program("node that keeps bodies, --languages", ["node", str(CASES / "app.js")], "app.js", node_load, ("--languages",)),
        # A JVM tells the names of its functions at its end.
        Program("java that keeps buffers, --languages", ["java", str(CASES / "Keep.java"), "36000"], "Keep|AllocateMemory", options=("--languages",)),
        Program("server with a leak, a cache that fills, and a queue", [str(server(directory)), "30"], "open_session"),
    ]


def server(directory):
    binary = directory / "srv"
    if not binary.exists():
        subprocess.run(["g++", "-O2", "-g", "-w", "-pthread", "-o", str(binary), str(CASES / "srv.cc")], check=True)
    return binary


def install(name, package, directory):
    target = directory / name
    if not target.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action", "ignore", "--no-deps",
                        "--only-binary", ":all:", "--target", target, package], check=True, stdout=sys.stderr)
    return target


def observe(directory, minutes, ramson=machine.RAMSON, library=machine.LIBRARY):
    """Runs them all at once for so long. Yields each with the suspects, as lists of frames, at each of `minutes`."""
    environment = machine.environment(RAMSON_LIBRARY=library) | {"RAMSON_DIR": str(directory)}
    running = [(program, start(program, ramson, directory, environment)) for program in programs(directory)
               if shutil.which(program.command[0])]
    began = time.monotonic()
    try:
        for at in minutes:
            time.sleep(max(0.0, began + 60 * at - time.monotonic()))
            for program, (process, profile) in running:
                if process.poll() is not None:
                    raise MeasurementError(f"{program.name} ended with {process.returncode}")
                yield program, at, suspects(ramson, profile, at, environment)
    finally:
        for _, (process, _) in running:
            # `ramson run` passes it on to the program.
            process.send_signal(signal.SIGTERM)
            process.wait()


def start(program, ramson, directory, environment):
    name = re.sub(r"\W+", "-", program.name)
    profile = directory / f"{name}.ramson"
    profile.unlink(missing_ok=True)
    command = [ramson, "run", "--interval", str(INTERVAL_BYTES), *program.options, "-o", profile, "--", *program.command]
    log = open(directory / f"{name}.log", "wb")
    process = subprocess.Popen([str(part) for part in command], env=environment | {"PYTHONMALLOC": ""}, cwd=directory,
                               stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    if program.load:
        threading.Thread(target=retried, args=(program.load,), daemon=True).start()
    return process, profile


def retried(load):
    """Until the server listens, and when it closes a connection."""
    while True:
        try:
            load()
        except OSError:
            time.sleep(0.5)


def suspects(ramson, profile, minutes, environment):
    least = ["--min-age", "15s"] if minutes < 2 else []
    found = subprocess.run([str(ramson), "leaks", str(profile), "--json", "-n", "0", *least], env=environment, capture_output=True, text=True)
    if found.returncode:
        raise MeasurementError(f"{profile.name}: {found.stderr.strip()}")
    growing = [suspect for suspect in json.loads(found.stdout)["suspects"] if suspect["verdict"] == "growing"]
    return [[frame["function"] + " " + frame["file"] for frame in suspect["frames"]] for suspect in growing]


def is_right(program, frames):
    return program.leak is not None and any(re.search(program.leak, frame) for frame in frames)
