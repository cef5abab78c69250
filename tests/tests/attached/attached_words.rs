//! Output of commands on processes that were attached to, whose sampling ended, or that were detached from.

use ramson_tests::attaching::{Visited, told};
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use std::thread::sleep;
use std::time::Duration;

/// Runs a command on a process, and returns what it prints.
#[track_caller]
fn said(scratch: &Scratch, words: &[&str], pid: u32) -> String {
    finish(ramson(scratch).args(words).arg(pid.to_string())).good().text()
}

#[track_caller]
fn has(text: &str, words: &str) {
    assert!(text.contains(words), "{words}: {text}");
}

#[track_caller]
fn lacks(text: &str, words: &str) {
    assert!(!text.contains(words), "{words}: {text}");
}

#[test]
fn sampling_ends_at_its_deadline() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &["--interval", "1", "--for", "2s"]);
    visited.tell("hold 20");
    let list = || said(&scratch, &["list"], pid);
    wait_until("its time is over", || list().contains("ended, hooks still in place"));
    has(&said(&scratch, &["report"], pid), "sampling ended ");
    has(&said(&scratch, &["leaks"], pid), " ago, when sampling ended: ");
    let leaks = told(&scratch, "leaks", pid, &[]);
    assert!(leaks.number("answer.sampling_ended_ns") > 0.0, "{leaks:?}");
    has(&said(&scratch, &["explain"], pid), "Whether it grows is not known: sampling has ended");
}

/// 200 blocks of 100,000 bytes were live at the detach.
#[test]
fn last_state_stays_readable_after_detach() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &["--interval", "1"]);
    visited.tell("hold 200");
    told(&scratch, "detach", pid, &[]);
    let held = |answer: &Json, key: &str| {
        let bytes = answer.number(key);
        assert!((200.0 * 100_000.0..201.0 * 110_000.0).contains(&bytes), "{bytes}");
    };
    held(&told(&scratch, "report", pid, &[]), "live.value");
    let report = said(&scratch, &["report"], pid);
    has(&report, " ago: live memory is shown as it was then");
    let explained = said(&scratch, &["explain"], pid);
    has(&explained, " was live at the detach");
    has(&explained, ": what the program has freed since is not known.");
    has(&explained, "not complete: detached ");
    has(&said(&scratch, &["leaks"], pid), " ago, when sampling ended: ");
    let counted = told(&scratch, "report", pid, &["--count", "alloc_space"]);
    assert!(counted.number("whole.value") >= 200.0 * 100_000.0, "{counted:?}");
    // The next attach begins anew.
    told(&scratch, "attach", pid, &["--interval", "1"]);
    let live = told(&scratch, "report", pid, &[]).number("live.value");
    assert!(live < 1_000_000.0, "{live}");
    told(&scratch, "detach", pid, &[]);
}

#[test]
fn last_state_outlives_detached_process() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &["--interval", "1"]);
    visited.tell("hold 200");
    told(&scratch, "detach", pid, &[]);
    drop(visited);
    let live = told(&scratch, "report", pid, &[]).number("live.value");
    assert!(live >= 200.0 * 100_000.0, "{live}");
    let report = said(&scratch, &["report"], pid);
    has(
        &report,
        "not complete: detached before it ended: live memory is shown as it was at the detach",
    );
    lacks(&report, "Wait");
}

#[test]
fn second_attach_counts_from_itself() {
    let scratch = Scratch::new();
    let visited = Visited::start(0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &["--interval", "64K"]);
    let again = said(&scratch, &["attach", "--interval", "4096", "--for", "1m"], pid);
    let next = format!(
        "still one sample per 64.0 KiB (to change that: ramson set {pid} --interval 4K --for 1m)"
    );
    has(&again, &next);
    // Only what was asked for.
    let again = said(&scratch, &["attach", "--for", "20s"], pid);
    has(&again, &format!(" (to limit that: ramson set {pid} --for 20s): ramson report"));
    lacks(&said(&scratch, &["attach"], pid), "ramson set");
    lacks(&said(&scratch, &["attach", "--interval", "64K"], pid), "still one");
    told(&scratch, "detach", pid, &[]);
    sleep(Duration::from_secs(3));
    told(&scratch, "attach", pid, &[]);
    let recorded = told(&scratch, "attach", pid, &[]).number("recorded_for_ms");
    let profiled = told(&scratch, "list", pid, &[]);
    let began = profiled.list("profiles")[0].number("start_unix_ns");
    let now = ramson_process::clock::unix_ns() as f64;
    assert!(recorded * 1e6 + 3e9 <= now - began, "{recorded} {}", now - began);
    // In lists and reports, too.
    let since = profiled.list("profiles")[0].number("since_unix_ns");
    assert!(since >= began + 3e9, "{since} {began}");
    has(&said(&scratch, &["report"], pid), " (first ");
}

#[test]
fn unwritable_directory_is_named() {
    let scratch = Scratch::new();
    let visited = Visited::start(0);
    let directory = scratch.path("no_directory");
    std::fs::write(&directory, "").unwrap();
    let mut attach = ramson(&scratch);
    attach.env("RAMSON_DIR", &directory).args(["attach", &visited.pid().to_string()]);
    let words = format!("because it cannot write to RAMSON_DIR, {};", directory.display());
    has(&finish(&mut attach).good().text(), &words);
}

#[test]
fn switched_off_sampling_is_shown() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &["--interval", "1"]);
    visited.tell("hold 10");
    told(&scratch, "set", pid, &["--off"]);
    // Its next sample.
    visited.tell("hold 1");
    has(&said(&scratch, &["list"], pid), " sampling is off ");
    // Frees are still seen.
    visited.tell("drop");
    let report = said(&scratch, &["report"], pid);
    has(&report, " samples is live; sampling ended ");
    lacks(&report, "was sampled");
    has(&said(&scratch, &["report"], pid), &format!(": ramson set {pid} --on"));
    assert_eq!(finish(ramson(&scratch).args(["set", &pid.to_string()])).status, 2);
}

#[test]
fn earlier_interval_is_not_overhead_target() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &["--interval", "1M", "--max-overhead", "off"]);
    visited.tell("hold 400");
    told(&scratch, "set", pid, &["--interval", "4096"]);
    visited.tell("hold 700");
    let report = said(&scratch, &["report", "--details"], pid);
    has(&report, "interval 4.00 KiB (before that ");
    lacks(&report, "overhead target");
}

#[test]
fn detached_child_is_shown_as_detached() {
    let scratch = Scratch::new();
    let mut talking = Talking::start(clean(installed("python3", "python3")).args(["-Sc", CHILD]));
    let parent = talking.expect("parent") as u32;
    told(&scratch, "attach", parent, &["--interval", "1"]);
    talking.tell("fork");
    let child = talking.expect("child") as u32;
    wait_until("the child has a profile", || {
        finish(ramson(&scratch).args(["report", &child.to_string()])).status == 0
    });
    told(&scratch, "detach", child, &[]);
    has(&said(&scratch, &["list"], child), " detached ");
    lacks(&said(&scratch, &["report"], child), "--on");
    talking.tell("end");
}

/// Says its ID; forks when told to; both end with its input.
const CHILD: &str = "
import os, sys
print('parent', os.getpid(), flush=True)
sys.stdin.readline()
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    kept = [bytearray(20000) for _ in range(50)]
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
print('child', child, flush=True)
sys.stdin.readline()
";

#[test]
fn newline_in_name_keeps_one_line() {
    let scratch = Scratch::new();
    let script = "
import ctypes, sys
ctypes.CDLL(None).prctl(15, b'a\\nforged', 0, 0, 0)
print('ready 0', flush=True)
sys.stdin.readline()
";
    let talking = Talking::start(clean(installed("python3", "python3")).args(["-Sc", script]));
    talking.expect("ready");
    let pid = talking.pid();
    for words in [&["attach"][..], &["set", "--off"], &["detach"], &["detach"]] {
        assert_eq!(said(&scratch, words, pid).lines().count(), 1, "{words:?}");
    }
    let refusal = finish(ramson(&scratch).args(["set", "--on", &pid.to_string()]));
    assert_eq!(refusal.remarks.len(), 1, "{refusal:?}");
}

#[test]
fn missing_mappings_are_reported() {
    let scratch = Scratch::new();
    let visited = Visited::start(0);
    told(&scratch, "attach", visited.pid(), &[]);
    let text = said(&scratch, &["report", "--kind", "mmap"], visited.pid());
    has(&text, "no mappings of 1 MiB or more");
    let text = said(&scratch, &["report"], visited.pid());
    let next = format!("use a smaller interval: ramson set {} --interval 64K", visited.pid());
    has(&text, &next);
}

#[test]
fn older_jemalloc_memory_is_not_free() {
    let scratch = Scratch::new();
    let socket = scratch.path("redis");
    let socket = socket.to_str().unwrap();
    let mut server = clean(installed("redis-server", "redis-server"));
    server.args(["--port", "0", "--save", "", "--unixsocket", socket]);
    server.args(["--enable-debug-command", "yes"]);
    let server = Running::start(&mut server, &scratch.path("log"), || accepts(socket.as_ref()));
    let pid = server.0.id();
    let populate = |prefix: &str, keys: &str| {
        let mut client = clean(installed("redis-cli", "redis-tools"));
        finish(client.args(["-s", socket, "debug", "populate", keys, prefix, "100"])).good();
    };
    populate("before", "300000");
    told(&scratch, "attach", pid, &["--interval", "64K"]);
    populate("after", "100000");
    let explain = said(&scratch, &["explain"], pid);
    lacks(&explain, "beyond the live blocks");
    lacks(&explain, "saves");
    has(&explain, &format!("ramson explain --ask {pid}"));
    has(
        &said(&scratch, &["report"], pid),
        "held by jemalloc: allocated before the attach, or free",
    );
    let json = told(&scratch, "explain", pid, &[]);
    assert_eq!(json.at("rss.may_hold_live"), &Json::Word("true".into()));
    assert!(
        json.list("advice").iter().all(|advice| advice.at("saving") == &Json::Word("null".into()))
    );
    told(&scratch, "detach", pid, &[]);
    let report = said(&scratch, &["report"], pid);
    lacks(&report, "outside malloc");
    has(&report, "other anonymous or jemalloc's");
}
