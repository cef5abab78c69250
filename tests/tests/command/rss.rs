//! The RSS line closes, and its RSS is the kernel's, also while the program grows or shrinks.

use ramson_tests::keeping::{Keeping, MIB, TERMS, part};
use ramson_tests::servers::*;
use ramson_tests::{preload, program};
use std::fs;
use std::ops::RangeInclusive;

/// Reports of each way to grow: as many as `RSS_REPORTS` says, else so many.
const REPORTS: usize = 50;
/// Most bytes that `grows wild` has beyond those at its start: 48 MiB of its own, and 2 MiB of other pages: its stacks, ramson's file.
const WILD_BYTES: u64 = (48 + 2) << 20;

struct Growing {
    running: Running,
    scratch: Scratch,
}

impl Growing {
    /// It has begun, and does not grow yet.
    fn start(how: &str) -> Self {
        let scratch = Scratch::new();
        let mut command = clean(program("grows.c"));
        preload(command.arg(how), "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
        let log = scratch.path("log");
        let running = Running::start(&mut command, &log, || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
        });
        Self { running, scratch }
    }

    fn grow(&self) {
        self.running.signal("USR1");
    }

    /// By the kernel.
    fn rss(&self) -> u64 {
        rollup(self.running.0.id())
    }

    /// A report of it.
    fn report(&self) -> Json {
        let pid = self.running.0.id().to_string();
        let outcome = finish(ramson(&self.scratch).args(["report", &pid, "--json"])).good();
        Json::parse(&outcome.text())
    }
}

fn rollup(pid: u32) -> u64 {
    kernel_figure(pid, "Rss:")
}

/// Bytes that the kernel counts so.
fn kernel_figure(pid: u32, name: &str) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// RSS, of which the terms are the sum.
fn closed_rss(json: &Json) -> u64 {
    let rss = json.number("rss.bytes");
    let sum: f64 = TERMS.iter().map(|term| json.number(&format!("rss.terms.{term}.value"))).sum();
    assert!((sum - rss).abs() <= TERMS.len() as f64, "{sum} is not {rss}: {json:?}");
    rss as u64
}

/// Reports of a program that grows in this way, and those that did not lie in what the kernel said before and after.
fn outside(how: &str, reports: usize) -> Vec<(RangeInclusive<u64>, u64)> {
    let growing = Growing::start(how);
    growing.grow();
    let mut outside = Vec::new();
    for _ in 0..reports {
        let before = growing.rss();
        let rss = closed_rss(&growing.report());
        let range = before..=growing.rss();
        if !range.contains(&rss) {
            outside.push((range, rss));
        }
    }
    outside
}

fn reports() -> usize {
    std::env::var("RSS_REPORTS").map_or(REPORTS, |reports| reports.parse().unwrap())
}

#[test]
fn rss_agrees_with_kernel_while_growing() {
    let reports = reports();
    for how in ["heap", "arena", "stack", "mapping"] {
        let outside = outside(how, reports);
        assert!(outside.is_empty(), "{how}: {} of {reports}: {outside:?}", outside.len());
        println!("{how}: {reports} of {reports} inside");
    }
}

#[test]
fn terms_add_up_under_fast_changes() {
    let reports = reports();
    let growing = Growing::start("wild");
    let least = growing.rss();
    growing.grow();
    let mut unsettled = 0;
    for _ in 0..reports {
        let json = growing.report();
        let rss = closed_rss(&json);
        assert!((least..=least + WILD_BYTES).contains(&rss), "{least} {rss}: {json:?}");
        unsettled +=
            usize::from(matches!(json.at("rss.is_settled"), Json::Word(word) if word == "false"));
    }
    println!("wild: {reports} of {reports} close, {unsettled} by the kernel's total");
}

/// The kernel gives a process copies of its own of pages that it shares with a child, if they are pinned while they are read.
#[test]
fn looking_at_forked_process_copies_no_page() {
    let scratch = Scratch::new();
    let script = "import os, time; held = [bytes(1000) for _ in range(64000)]; \
                  child = os.fork(); child and print('ready', flush=True); time.sleep(600)";
    let log = scratch.path("log");
    let mut command = clean(python());
    let parent = Running::start(command.args(["-c", script]), &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let pid = parent.0.id();
    let shared = || kernel_figure(pid, "Shared_Dirty:");
    let before = shared();
    assert!(before > 60 << 20, "{before}");
    let json = finish(ramson(&scratch).args(["explain", "--json", "--exact", &pid.to_string()]));
    let live = part(&Json::parse(&json.good().text()), "live");
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let after = shared();
    signal(children.trim().parse().unwrap(), "KILL");
    assert!(live > 60.0 * MIB, "{live}");
    assert!(after + (1 << 20) > before, "{before} {after}");
}

#[test]
fn looking_faults_in_no_page() {
    let scratch = Scratch::new();
    // Half of what it has allocated was never touched.
    let keeping = Keeping::start(&scratch, &["large", "64"], |command| {
        preload(command, "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    });
    let before = rollup(keeping.pid());
    let pid = keeping.pid().to_string();
    for arguments in [&["report", &pid][..], &["explain", &pid], &["explain", "--exact", &pid]] {
        let text = finish(ramson(&scratch).args(arguments)).good().text();
        assert!(text.contains(": RSS "), "{text}");
        assert_eq!(rollup(keeping.pid()), before, "{arguments:?}");
    }
}

#[test]
fn forked_memory_belongs_to_parent() {
    let scratch = Scratch::new();
    let script = "import os, time; held = [b'x' * (1 << 20) for _ in range(64)]; \
                  child = os.fork(); child and print('ready', child, flush=True); time.sleep(600)";
    let log = scratch.path("log");
    let mut command = clean(python());
    let parent = Running::start(command.args(["-c", script]), &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let said = fs::read_to_string(&log).unwrap();
    let child = said.trim().rsplit(' ').next().unwrap();
    let json = finish(ramson(&scratch).args(["explain", "--json", child])).good().text();
    signal(child.parse().unwrap(), "KILL");
    let json = Json::parse(&json);
    assert!(part(&json, "inherited_from_parent") >= 64.0 * MIB, "{json:?}");
    assert!(part(&json, "other_anonymous") < 16.0 * MIB, "{json:?}");
    let why = json.text("statistics_missing");
    assert!(why.contains(&format!("its parent, process {}, ", parent.0.id())), "{why}");
    let saves = |advice: &&Json| !matches!(advice.at("saving"), Json::Word(word) if word == "null");
    assert_eq!(json.list("advice").iter().find(saves).map(|it| it.text("action")), None);
}
