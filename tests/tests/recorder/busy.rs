//! Busy programs, with more threads than processors: the light part of `bench/run busy`, and of that what does not depend on timing. Samples
//! have their stacks, none is lost, live bytes are the program's own count, and the first line closes.

use ramson_format::Health;
use ramson_tests::keeping::{TERMS, term};
use ramson_tests::servers::*;
use ramson_tests::several::redis;
use ramson_tests::{Run, health, profiles_in, program_with, read};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const Z_95: f64 = 1.959_964;
/// Standard errors that an estimate may lie off: one of 15,000 lies farther.
const STANDARD_ERRORS: f64 = 4.0;
/// Most bytes that the program allocates and does not count: its list of threads, and its output's buffer.
const BESIDES_BYTES: f64 = 8192.0;

/// The report of a process closes, and no sample of it, nor of any other one with a profile there, lacks what it should have.
fn report(scratch: &Scratch, pid: u32) -> Json {
    let arguments = ["report", &pid.to_string(), "--json"];
    let json = Json::parse(&finish(ramson(scratch).args(arguments)).good().text());
    let sum: f64 = TERMS.iter().map(|name| term(&json, name)).sum();
    let rss = json.number("rss.bytes");
    assert!((sum - rss).abs() <= TERMS.len() as f64, "{sum} is not {rss}");
    assert!(sum > 0.0 && json.list("defects").is_empty(), "{json:?}");
    for path in profiles_in(&scratch.path("profiles")) {
        let snapshot = read(&path).unwrap();
        let samples = health(&snapshot, Health::Samples);
        let lost = [Health::DroppedWalks, Health::DroppedStacks];
        let without_stack: u64 = lost.map(|counter| health(&snapshot, counter)).iter().sum();
        assert!(without_stack * 1000 <= samples, "{without_stack} of {samples}");
        assert_eq!(health(&snapshot, Health::DroppedLive), 0);
    }
    json
}

/// `bench/programs/busy.c` grows to so many MiB.
fn grow(threads: u32, mib: u32, interval: &str) {
    let scratch = Scratch::new();
    let mut run = Run::new(program_with("../../bench/programs/busy.c", "busy", &["-pthread"]))
        .arg("grow")
        .arg(threads.to_string())
        .arg(mib.to_string())
        .env("RAMSON_DIR", scratch.open_directory("profiles"))
        .env("RAMSON_INTERVAL", interval);
    run.command.stdin(Stdio::piped());
    let mut child = run.spawn();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let truth: f64 = said.trim().strip_prefix("result ").expect("its own count").parse().unwrap();
    let json = report(&scratch, child.id());
    let [live, half_width] =
        ["value", "half_width_95"].map(|name| json.number(&format!("live_requested.{name}")));
    let most = STANDARD_ERRORS * half_width / Z_95 + BESIDES_BYTES;
    assert!((live - truth).abs() <= most, "{live} ± {half_width}, not {truth}");
    // It waits for that.
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn eight_threads_that_grow_a_heap() {
    grow(8, 512, "64K");
}

#[test]
fn sixty_four_threads_on_few_processors() {
    grow(64, 256, "64K");
}

#[test]
fn hundreds_of_threads_on_few_processors() {
    grow(256, 256, "64K");
}

#[test]
fn sixty_four_threads_with_everything_sampled() {
    grow(64, 32, "1");
}

#[test]
fn redis_with_fifty_pipelining_clients() {
    let scratch = Scratch::new();
    let server = redis(&scratch, "busy-redis", "socket", 20_000, true);
    let mut clients = clean(installed("redis-benchmark", "redis-tools"));
    clients.arg("-s").arg(scratch.path("socket"));
    clients.args(["-q", "-t", "set,lpush", "-c", "50", "-P", "16", "-r", "100000"]);
    finish(clients.args(["-n", "300000", "-d", "200"])).good();
    report(&scratch, server.0.id());
}
