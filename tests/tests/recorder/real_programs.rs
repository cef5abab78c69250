//! Real programs do the same under ramson as without it, and their profiles are whole.

use ramson_format::{Health, stack_flags};
use ramson_reader::Snapshot;
use ramson_tests::servers::*;
use ramson_tests::{health, preload, shared_library};
use std::fmt::Debug;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Facts that the profiles of a program must show.
struct Expected<'a> {
    /// Base name of its executable.
    executable: &'a str,
    /// Over all its processes, at the first of the intervals.
    samples: u64,
    /// Most percent of walks that may end early.
    failed_percent: u64,
    /// Share of stacks that must begin where a thread begins; 0 where code without unwind tables is the rule.
    whole_stacks: f64,
}

/// Plays `scenario` without ramson, then at each interval, over each allocator; the results must be the same.
#[track_caller]
fn compare<T: PartialEq + Debug>(
    intervals: &[&str],
    allocators: &[Option<PathBuf>],
    expected: &Expected,
    scenario: impl Fn(&Way) -> T,
) {
    for allocator in allocators {
        let scratch = Scratch::new();
        let plain = Way { interval: None, allocator: allocator.as_deref(), scratch: &scratch };
        let wanted = scenario(&plain);
        for interval in intervals {
            let scratch = Scratch::new();
            let way = Way { interval: Some(interval), scratch: &scratch, ..plain };
            assert_eq!(scenario(&way), wanted, "{}", way.name());
            assert_whole(&way, expected);
        }
    }
}

/// The profiles of a scratch directory are of these programs, and miss nothing.
#[track_caller]
fn assert_whole(way: &Way, expected: &Expected) {
    let all = profiles(way.scratch);
    let dropped =
        [Health::DroppedLive, Health::DroppedStacks, Health::DroppedMappings, Health::GrowFailures];
    for snapshot in &all {
        for counter in dropped {
            let count = health(snapshot, counter);
            assert_eq!(count, 0, "{counter:?} of {}, {}", executable(snapshot), way.name());
        }
        // Threads that sample while another one makes the file get no walker.
        let (samples, early) =
            (health(snapshot, Health::Samples), health(snapshot, Health::DroppedWalks));
        assert!(early <= 4 + samples / 100, "{early} of {samples} have no stack, {}", way.name());
    }
    let its = all.iter().filter(|snapshot| executable(snapshot) == expected.executable);
    let its: Vec<&Snapshot> = its.collect();
    let sum = |counter| its.iter().map(|snapshot| health(snapshot, counter)).sum::<u64>();
    let (samples, failed) = (sum(Health::Samples), sum(Health::FailedWalks));
    let names: Vec<&str> = all.iter().map(executable).collect();
    let least = expected.samples;
    assert!(samples >= least, "{samples} samples, {}; profiles of {names:?}", way.name());
    let walks = samples + sum(Health::Extents);
    let share = expected.failed_percent;
    assert!(failed * 100 <= walks * share, "{failed} of {walks} walks failed, {}", way.name());
    assert_stacks_begin_with_a_thread(way, expected);
}

/// Asks for the names of the outermost frames, so that the walker does not judge itself.
#[track_caller]
fn assert_stacks_begin_with_a_thread(way: &Way, expected: &Expected) {
    let mut stacks = 0;
    let mut whole = 0;
    let mut others = Vec::new();
    for path in ramson_tests::profiles_in(&way.scratch.path("profiles")) {
        let snapshot = ramson_tests::read(&path).unwrap();
        if expected.whole_stacks == 0.0 || executable(&snapshot) != expected.executable {
            continue;
        }
        let incomplete = stack_flags::CUT | stack_flags::INCOMPLETE;
        let flagged = snapshot.stacks.iter().filter(|stack| stack.flags & incomplete != 0).count();
        assert!(flagged * 10 < snapshot.stacks.len(), "{flagged} of {}", snapshot.stacks.len());
        let exported = finish(ramson(way.scratch).arg("export").arg(&path).args(["-f", "json"]));
        for stack in Json::parse(&exported.good().text()).list("stacks") {
            let frames = stack.list("frames");
            let outermost = frames.iter().rev().take(3).map(|frame| frame.text("function"));
            let begins =
                ["_start", "__libc_start_main", "clone", "__clone", "start_thread", "_dl_"];
            stacks += 1;
            if outermost.clone().any(|name| begins.iter().any(|begin| name.starts_with(begin))) {
                whole += 1;
            } else {
                others.push(outermost.collect::<Vec<_>>().join(" > "));
            }
        }
    }
    let share = f64::from(whole) / f64::from(stacks.max(1));
    assert!(
        stacks == 0 || share > expected.whole_stacks,
        "{whole} of {stacks} stacks begin with a thread, {}: {:?}",
        way.name(),
        &others[..others.len().min(9)]
    );
}

/// glibc's malloc or what the program is linked with, and jemalloc; with RAMSON_EVERY_ALLOCATOR (`make test-long`) the other two as well.
fn every_allocator() -> Vec<Option<PathBuf>> {
    let others = ["libjemalloc.so.2", "libtcmalloc.so.4", "libmimalloc.so.2"];
    let is_every = std::env::var_os("RAMSON_EVERY_ALLOCATOR").is_some();
    let others = others.into_iter().take(if is_every { others.len() } else { 1 });
    std::iter::once(None).chain(others.map(|name| Some(shared_library(name)))).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sends all of `request` and reads until the server closes.
fn talk(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A redis without files or ports, on the socket `redis.sock`.
fn redis(way: &Way, options: &[&str]) -> Running {
    let socket = way.scratch.path("redis.sock");
    let mut command = way.command(installed("redis-server", "redis-server"));
    command.args(["--port", "0", "--save", "", "--dir"]).arg(way.scratch.path(""));
    command.arg("--unixsocket").arg(&socket).args(options);
    Running::start(&mut command, &way.scratch.path("log"), || accepts(&socket))
}

fn redis_cli(scratch: &Scratch, words: &[&str], input: &[u8]) -> String {
    let mut command = clean(installed("redis-cli", "redis-tools"));
    let outcome = finish_with(command.arg("-s").arg(scratch.path("redis.sock")).args(words), input);
    outcome.good().text()
}

/// Commands, a benchmark, a forked child that saves, an orderly end. Returns answers, log and status.
fn redis_scenario(way: &Way) -> (String, Vec<String>, i32) {
    let scratch = way.scratch;
    let mut server = redis(way, &[]);
    let mut answers = redis_cli(scratch, &[], &fs::read(real("script.redis")).unwrap());
    let mut benchmark = clean(installed("redis-benchmark", "redis-tools"));
    benchmark.arg("-s").arg(scratch.path("redis.sock"));
    finish(benchmark.args(["-q", "-t", "set,get,lpush", "-n", "4000", "-d", "100"])).good();
    answers += &redis_cli(scratch, &["LLEN", "mylist"], b"");
    answers += &redis_cli(scratch, &["STRLEN", "key:__rand_int__"], b"");
    answers += &redis_cli(scratch, &["BGSAVE"], b"");
    let persistence = || redis_cli(scratch, &["INFO", "persistence"], b"");
    wait_until("BGSAVE ends", || persistence().contains("rdb_bgsave_in_progress:0"));
    assert!(persistence().contains("rdb_last_bgsave_status:ok"));
    redis_cli(scratch, &["SHUTDOWN", "NOSAVE"], b"");
    let status = code(server.wait());
    let log = fs::read_to_string(scratch.path("log")).unwrap();
    let log = log.replace(scratch.path("").to_str().unwrap(), "");
    // After process, date and time there is a mark, then the text.
    let texts = log.lines().filter(|line| !line.starts_with("ramson: ") && !line.contains("pid"));
    let texts = texts.filter_map(|line| line.split_once(['*', '#']));
    let texts: Vec<String> = texts.map(|(_, text)| text.to_owned()).collect();
    assert!(texts.iter().any(|text| text.contains("ready to exit")), "{log}");
    (answers, texts.into_iter().filter(|text| !text.contains("CoW")).collect(), status)
}

#[test]
fn redis_is_unchanged_on_every_allocator() {
    // Debian's is linked with jemalloc.
    let mut allocators = every_allocator();
    allocators[1] = Some(shared_library("libc.so.6"));
    let expected = Expected {
        executable: "redis-check-rdb",
        samples: 50,
        failed_percent: 1,
        whole_stacks: 0.9,
    };
    compare(&["64K"], &allocators, &expected, redis_scenario);
    compare(&["1"], &[None], &expected, redis_scenario);
}

#[test]
fn memcached_is_unchanged_on_every_allocator() {
    let expected =
        Expected { executable: "memcached", samples: 20, failed_percent: 1, whole_stacks: 0.9 };
    let mut script = Vec::new();
    for number in 0..300 {
        let value = "v".repeat(number * 37 % 9000);
        script.extend(format!("set key{number} {number} 0 {}\r\n{value}\r\n", value.len()).bytes());
    }
    script
        .extend(b"get key1 key7 key99\r\nappend key7 0 0 3\r\nend\r\ngets key7\r\ndelete key7\r\n");
    script.extend(b"set n 0 0 2\r\n41\r\nincr n 1\r\nget n\r\nverbosity 9\r\nnonsense\r\nquit\r\n");
    compare(&["64K", "1"], &every_allocator(), &expected, |way| {
        let port = free_port();
        let mut command = way.command(installed("memcached", "memcached"));
        command.args(["-l", "127.0.0.1", "-U", "0", "-u", "root", "-p"]).arg(port.to_string());
        let is_ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let mut server = Running::start(&mut command, &way.scratch.path("log"), is_ready);
        let answers: Vec<String> = (0..8).map(|_| talk(port, &script)).collect();
        server.signal("TERM");
        // gets shows a number that counts changes.
        let without_counter = |text: &String| {
            text.lines().filter(|line| !line.starts_with("VALUE key7")).collect::<String>()
        };
        (answers.iter().map(without_counter).collect::<Vec<_>>(), code(server.wait()))
    });
}

#[test]
fn nginx_is_unchanged_with_profiled_workers() {
    let configuration = |scratch: &Path, port: u16| {
        format!(
            "daemon off; pid {0}/pid; error_log {0}/error.log; worker_processes 2; events {{}}
             http {{
               access_log off; gzip on; gzip_types text/plain; types {{ text/plain txt; }}
               client_body_temp_path {0}/1; proxy_temp_path {0}/2; fastcgi_temp_path {0}/3; uwsgi_temp_path {0}/4; scgi_temp_path {0}/5;
               server {{ listen 127.0.0.1:{port}; root {0}; }}
             }}",
            scratch.display()
        )
    };
    let expected =
        Expected { executable: "nginx", samples: 20, failed_percent: 1, whole_stacks: 0.9 };
    // Workers of fewer than 64 samples leave no profile.
    compare(&["4K", "1"], &every_allocator(), &expected, |way| {
        let scratch = way.scratch;
        let port = free_port();
        scratch.file("page.txt", "a line of the page\n".repeat(5000));
        let conf = scratch.file("conf", configuration(&scratch.path(""), port));
        let mut command = way.command(installed("nginx", "nginx-light"));
        command.arg("-e").arg(scratch.path("error.log")).arg("-c").arg(&conf);
        let is_ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let mut server = Running::start(&mut command, &scratch.path("log"), is_ready);
        let get = |path: &str, more: &str| {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n");
            let answer = talk(port, request.as_bytes());
            let changes = ["Date:", "Last-Modified:", "ETag:"];
            let lines =
                answer.lines().filter(|line| !changes.iter().any(|it| line.starts_with(it)));
            lines.collect::<String>()
        };
        let pages: Vec<String> =
            (0..40).map(|_| get("/page.txt", "Accept-Encoding: gzip\r\n")).collect();
        assert!(pages[0].contains("Content-Encoding: gzip"), "{}", pages[0]);
        let others = [get("/page.txt", ""), get("/none", ""), get("/", "")];
        let mut quit = clean(installed("nginx", "nginx-light"));
        finish(
            quit.arg("-e").arg(scratch.path("error.log")).arg("-c").arg(&conf).args(["-s", "quit"]),
        )
        .good();
        let status = code(server.wait());
        if way.interval == Some("1") {
            assert_eq!(profiles(scratch).len(), 3, "the master and two workers");
        }
        (pages, others, status)
    });
}

#[test]
fn postgresql_is_unchanged_with_profiled_backends() {
    let bin = Path::new("/usr/lib/postgresql");
    let versions = fs::read_dir(bin).into_iter().flatten().flatten().map(|entry| entry.path());
    let bin = versions.map(|version| version.join("bin")).find(|bin| bin.join("pgbench").exists());
    let bin = bin.expect("PostgreSQL is missing: apt-get install postgresql postgresql-contrib");
    let expected =
        Expected { executable: "postgres", samples: 200, failed_percent: 1, whole_stacks: 0.9 };
    compare(&["16K"], &every_allocator(), &expected, |way| postgresql_scenario(&bin, way));
}

/// initdb, pgbench, psql, an orderly end. PostgreSQL refuses to run as root.
fn postgresql_scenario(bin: &Path, way: &Way) -> (String, String, i32) {
    let scratch = way.scratch;
    let home = scratch.open_directory("postgres");
    let data = home.join("data");
    let log = scratch.path("log");
    let client = |name: &str, words: &[&str]| {
        let mut command = clean(bin.join(name));
        command
            .arg("-h")
            .arg(&home)
            .args(["-U", "postgres"])
            .args(words)
            .env("PGDATABASE", "postgres");
        finish(&mut command)
    };
    let mut initdb = way.command(bin.join("initdb"));
    initdb.arg("-D").arg(&data).args(["-U", "postgres", "--no-sync", "-A", "trust"]);
    let made = finish(&mut as_user("postgres", scratch, &initdb)).good().text();
    let mut postgres = way.command(bin.join("postgres"));
    postgres.arg("-D").arg(&data).arg("-k").arg(&home).args(["-c", "listen_addresses="]);
    postgres.args(["-c", "log_connections=on", "-c", "log_line_prefix=%p ", "-c", "fsync=off"]);
    let is_ready = || client("psql", &["-c", "select 1"]).status == 0;
    let mut server = Running::start(&mut as_user("postgres", scratch, &postgres), &log, is_ready);

    client("pgbench", &["-i", "-q", "-s", "1"]).good();
    let benchmark = client("pgbench", &["-c", "2", "-t", "200"]).good().text();
    let counts = benchmark.lines().filter(|line| line.starts_with("number of "));
    let query = "select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts) \
                 from pgbench_history; select md5(string_agg(n::text, ',')) from generate_series(1, 50000) n; \
                 select nothing";
    let queried = client("psql", &["-c", query]);
    let answers = counts.collect::<String>() + &queried.text() + &queried.stderr;
    let mut stop = clean(bin.join("pg_ctl"));
    stop.arg("stop").arg("-D").arg(&data).args(["-m", "fast", "-s"]);
    finish(&mut as_user("postgres", scratch, &stop)).good();
    let status = code(server.wait());

    if way.interval.is_some() {
        let log = fs::read_to_string(log).unwrap();
        let pids = log.lines().filter(|line| line.contains("connection authorized"));
        let pids: Vec<u32> = pids.filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        assert!(pids.len() >= 5, "{log}");
        let profiled: Vec<u32> =
            profiles(scratch).iter().map(|snapshot| snapshot.header.pid).collect();
        for pid in pids {
            assert!(profiled.contains(&pid), "backend {pid} has no profile: {profiled:?}");
        }
    }
    (made.replace(scratch.path("").to_str().unwrap(), ""), answers, status)
}

#[test]
fn python_is_unchanged_on_every_allocator() {
    let python = python();
    let executable = python.file_name().unwrap().to_str().unwrap();
    // Compiled Java has no unwind tables, and its frame pointer is not always one.
    let expected = Expected { executable, samples: 100, failed_percent: 1, whole_stacks: 0.9 };
    let scenario = |way: &Way| {
        let mut command = way.command(&python);
        command.arg(real("script.py")).env("PYTHONMALLOC", "malloc");
        let essence = finish(&mut command).essence();
        assert_eq!(essence.0, 3, "{essence:?}");
        essence
    };
    compare(&["64K"], &every_allocator(), &expected, scenario);
    compare(&["1K"], &[None], &expected, scenario);
}

#[test]
fn node_is_the_same() {
    let node = installed("node", "nodejs");
    let expected =
        Expected { executable: "node", samples: 100, failed_percent: 1, whole_stacks: 0.0 };
    compare(&["64K", "4K"], &every_allocator(), &expected, |way| {
        let essence = finish(way.command(&node).arg(real("script.js"))).essence();
        assert_eq!(essence.0, 7, "{essence:?}");
        essence
    });
}

#[test]
fn java_is_unchanged_compiled_or_interpreted() {
    let classes = Scratch::new();
    let mut javac = clean(installed("javac", "default-jdk-headless"));
    finish(javac.arg("-d").arg(classes.path("")).arg(real("Allocates.java"))).good();
    let java = installed("java", "default-jdk-headless");
    for mode in ["-Xmixed", "-Xint"] {
        let expected =
            Expected { executable: "java", samples: 30, failed_percent: 5, whole_stacks: 0.0 };
        compare(&["64K"], &every_allocator(), &expected, |way| {
            let mut command = way.command(&java);
            command.arg(mode).arg("-cp").arg(classes.path("")).arg("Allocates");
            let essence = finish(&mut command).essence();
            assert_eq!(essence.0, 5, "{essence:?}");
            essence
        });
    }
}

#[test]
fn cgo_program_is_unchanged() {
    let built = Scratch::new();
    let mut go = clean(installed("go", "golang-go"));
    go.args(["build", "-o"]).arg(built.path("allocates")).arg(real("allocates.go"));
    finish(go.env("GO111MODULE", "off").env("CGO_ENABLED", "1")).good();
    // Go's own code has no unwind tables, and C in Go runs on another stack than Go: every walk ends at the border.
    let expected =
        Expected { executable: "allocates", samples: 100, failed_percent: 100, whole_stacks: 0.0 };
    compare(&["64K", "1"], &every_allocator(), &expected, |way| {
        let essence = finish(&mut way.command(built.path("allocates"))).essence();
        assert_eq!(essence.0, 4, "{essence:?}");
        essence
    });
}

#[test]
fn compiler_output_is_unchanged() {
    let compiler = installed("g++", "g++");
    let expected =
        Expected { executable: "cc1plus", samples: 100, failed_percent: 1, whole_stacks: 0.9 };
    compare(&["64K"], &every_allocator(), &expected, |way| {
        let object = way.scratch.path("object");
        let mut command = way.command(&compiler);
        command.args(["-O1", "-std=c++17", "-c"]).arg(real("compiled.cc")).arg("-o").arg(&object);
        finish(&mut command).good();
        fs::read(object).unwrap()
    });
    compare(&["64K"], &[None], &Expected { samples: 0, ..expected }, |way| {
        let wrong = way.scratch.file("wrong.cc", "int main() { return nothing; }\n");
        let essence = finish(way.command(&compiler).arg("-c").arg(&wrong)).essence();
        assert_eq!(essence.0, 1);
        essence.2.replace(way.scratch.path("").to_str().unwrap(), "")
    });
}

#[test]
fn sqlite_is_unchanged_on_every_allocator() {
    let sqlite = installed("sqlite3", "sqlite3");
    let script = fs::read(real("script.sql")).unwrap();
    let expected =
        Expected { executable: "sqlite3", samples: 50, failed_percent: 1, whole_stacks: 0.9 };
    compare(&["64K", "1"], &every_allocator(), &expected, |way| {
        let database = way.scratch.path("database");
        let essence = finish_with(way.command(&sqlite).arg(&database), &script).essence();
        assert_eq!(essence.0, 1, "{essence:?}");
        (essence, fs::read(database).unwrap())
    });
}

#[test]
fn git_makes_the_same_repository() {
    installed("git", "git");
    let expected =
        Expected { executable: "git", samples: 100, failed_percent: 1, whole_stacks: 0.9 };
    compare(&["64K"], &every_allocator(), &expected, |way| {
        let home = way.scratch.open_directory("home");
        let mut command = way.command("sh");
        command.arg(real("script.sh")).arg(&home);
        let essence = finish(&mut command).essence();
        assert_eq!(essence.0, 1, "{essence:?}");
        essence
    });
}

/// The value and half width that `ramson report` gives as `live`, usable bytes, or as `live_requested`.
fn reported(scratch: &Scratch, source: &str, name: &str) -> (f64, f64) {
    let report = finish(ramson(scratch).args(["report", source, "--json"])).good();
    let report = Json::parse(&report.text());
    let [value, half_width] = ["value", "half_width_95"].map(|of| format!("{name}.{of}"));
    (report.number(&value), report.number(&half_width))
}

/// `truth` lies within twice the printed interval around the growth from `before` to `after`: 3.9 sigmas, one run in 10,000.
#[track_caller]
fn assert_growth(before: (f64, f64), after: (f64, f64), truth: f64) {
    let growth = after.0 - before.0;
    assert!(after.1 < truth * 0.2, "an interval of {} around {growth} says little", after.1);
    assert!((growth - truth).abs() < 2.0 * after.1, "{growth} ± {}, in truth {truth}", after.1);
}

#[test]
fn redis_memory_matches_its_own_count() {
    let scratch = Scratch::new();
    let way = Way { interval: Some("64K"), allocator: None, scratch: &scratch };
    let mut server = redis(&way, &["--enable-debug-command", "yes"]);
    let number = |section: &str, name: &str| -> f64 {
        let facts = redis_cli(&scratch, &["INFO", section], b"");
        let found = facts.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {name} in {facts}"))
    };
    let pid = number("server", "process_id:").to_string();
    let reported = || reported(&scratch, &pid, "live");
    let before = (reported(), number("memory", "used_memory:"));
    redis_cli(&scratch, &["DEBUG", "POPULATE", "100000", "key", "400"], b"");
    let after = (reported(), number("memory", "used_memory:"));
    // Both count what jemalloc rounds up.
    assert_growth(before.0, after.0, after.1 - before.1);
    redis_cli(&scratch, &["FLUSHALL"], b"");
    let flushed = reported();
    assert!(flushed.0 < before.0.0 + after.0.0 / 10.0, "{flushed:?} after {after:?}");
    redis_cli(&scratch, &["SHUTDOWN", "NOSAVE"], b"");
    assert_eq!(code(server.wait()), 0);
}

#[test]
fn python_memory_matches_its_own_count() {
    let scratch = Scratch::new();
    let mut command = Command::new(python());
    command.arg(real("holds_bytes.py")).env("PYTHONMALLOC", "malloc");
    preload(&mut command, "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let mut child = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let pid = child.0.id().to_string();
    let mut stdin = child.0.stdin.take().unwrap();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    let reported = || reported(&scratch, &pid, "live_requested");
    let before = reported();
    writeln!(stdin).unwrap();
    let truth = lines.next().unwrap().parse().unwrap();
    assert_growth(before, reported(), truth);
    drop(stdin);
    assert_eq!(code(child.wait()), 0);
}
