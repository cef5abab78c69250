"""The programs that run in the root directory of each release: how each is started, put to work and known to be ready."""

import dataclasses

# Memory that Python, node and SQLite hold until their standard input ends.
PYTHON = "held = [bytearray(3000) for _ in range(20000)]; print('ready', flush=True); input()"
NODE = ("const held = []; for (let i = 0; i < 400; i++) held.push(Buffer.alloc(100000, 1)); "
        "console.log('ready'); process.stdin.resume(); process.stdin.on('end', () => process.exit(0))")
SQLITE = ("CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) "
          "INSERT INTO t SELECT i, hex(randomblob(50)) FROM n; SELECT 'ready';\n")
NGINX = ("daemon off; pid /tmp/nginx.pid; error_log stderr; worker_processes 1; events {} "
         "http { access_log off; server { listen unix:/tmp/nginx; location / { return 200 ok; } } }")
REQUESTS = ("import socket\nfor _ in range(300):\n  s = socket.socket(socket.AF_UNIX); s.connect('/tmp/nginx'); "
            "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); assert b'200' in s.recv(999)")


@dataclasses.dataclass
class Program:
    """A program; it runs until its standard input ends or it is told to end."""

    name: str
    # As `ps` calls the process that is looked at.
    comm: str
    command: list
    # A shell's condition that holds once it is ready, and then puts it to work.
    ready: str
    # Written to its standard input at first.
    text: str = ""
    user: str = "root"
    # A shell's commands before it starts.
    before: str = "true"
    allocator: str = "glibc"
    # It ends by itself.
    is_short: bool = False
    interval: str = "64K"
    # It exports nothing, and Debian has stripped it.
    is_nameless: bool = False


PROGRAMS = [
    Program("redis-server", "redis-server", "redis-server --port 0 --unixsocket /tmp/redis --save".split() + [""],
            "redis-cli -s /tmp/redis ping > /dev/null 2>&1 && "
            "redis-benchmark -s /tmp/redis -t set -n 40000 -d 1000 -r 20000 -q > /dev/null", allocator="jemalloc"),
    Program("python3", "python3", ["python3", "-c", PYTHON], "grep -q ready /tmp/out"),
    Program("node", "node", ["node", "-e", NODE], "grep -q ready /tmp/out"),
    Program("sqlite3", "sqlite3", ["sqlite3", ":memory:"], "grep -q ready /tmp/out", text=SQLITE),
    Program("PostgreSQL", "postgres", ["sh", "-c", "exec $(ls /usr/lib/postgresql/*/bin/postgres) -D /tmp/pg -k /tmp -c listen_addresses="],
            "psql -q -h /tmp -d postgres -c 'select count(*) from (select repeat(i::text, 100) x from generate_series(1, 200000) i order by x) t' > /dev/null 2>&1",
            user="postgres", interval="4K", before="rm -rf /tmp/pg; $(ls /usr/lib/postgresql/*/bin/initdb) -D /tmp/pg > /dev/null"),
    Program("nginx", "nginx", ["nginx", "-c", "/tmp/nginx.conf"], f'python3 -c "{REQUESTS}"', interval="1K",
            before=f"rm -f /tmp/nginx; echo '{NGINX}' > /tmp/nginx.conf"),
    Program("git (gc)", "git", ["git", "-C", "/tmp/repository", "gc", "--quiet", "--aggressive"], "true", is_short=True, interval="4K",
            before="rm -rf /tmp/repository; git init -q /tmp/repository; cd /tmp/repository; git config user.email a@b; git config user.name a; "
                   "cp -r /usr/lib/python3/ . 2> /dev/null; cp /usr/share/doc/*/copyright . 2> /dev/null; git add .; git commit -q -m all"),
    Program("C++: apt-cache", "apt-cache", ["apt-cache", "search", "-n", "lib"], "true", is_short=True),
    Program("Rust: ripgrep", "rg", ["rg", "--count", "--no-messages", "the", "/usr/share"], "true", is_short=True, is_nameless=True, interval="4K"),
]
