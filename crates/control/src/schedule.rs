//! `ramson run --trim-every` and `--trim-after`: the same again and again, where it is worth it.

use crate::inside::Inside;
use crate::trim::{self, TrimAnswer, Trimmed, rss_of};
use ramson_format::Kind;
use ramson_process::{clock, processes, text};
use ramson_source::{Failure, Target, open_member};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Less is not worth a call: so many bytes, and this share of RSS.
const LEAST_BYTES: u64 = 4 << 20;
const LEAST_SHARE: f64 = 1.0 / 64.0;
/// A look that took so long is not repeated before so many times as long: 2% of one processor.
const MOST_LOOKING: u32 = 50;
/// Between two looks at what was freed.
const FREED_PERIOD: Duration = Duration::from_secs(1);
/// Between two looks at which processes there are.
const LEAST_PERIOD: Duration = Duration::from_millis(10);
/// Longest pause between trials, in times of the usual one: if only trying tells what there is to gain, trials that gave little make it longer.
const MOST_PAUSE: u32 = 64;
/// Processes of one program.
const MOST_PROCESSES: usize = 256;

/// Trims a program and its children until it ends.
pub struct Schedule {
    every: Option<Duration>,
    after: Option<u64>,
    log: Option<File>,
    processes: HashMap<u32, Process>,
}

/// State of one process in the schedule.
struct Process {
    /// The last trim, or the start.
    last: Instant,
    /// The last time that a trim was due, worth it or not.
    due: Instant,
    /// Before, looking would cost too much.
    next_look: Instant,
    /// Weighted bytes freed by the last time.
    freed: f64,
    /// Times the usual pause.
    pause: u32,
    /// Why it could not be trimmed, as said last.
    refusal: String,
}

impl Schedule {
    /// When a trim is due, if it is worth it. A JSON line about each goes to `log`, or standard error.
    pub fn new(every: Option<Duration>, after: Option<u64>, log: Option<File>) -> Self {
        Self { every, after, log, processes: HashMap::new() }
    }

    /// Trims process `root` and its children, until there is none of them.
    pub fn run(mut self, root: u32) {
        let freed = self.after.map(|_| FREED_PERIOD);
        let period = self.every.into_iter().chain(freed).min().unwrap_or(FREED_PERIOD);
        loop {
            let begin = Instant::now();
            let pids = family(root);
            let took = begin.elapsed();
            self.processes.retain(|pid, _| pids.contains(pid));
            for &pid in &pids {
                self.visit(pid);
            }
            if pids.is_empty() {
                return;
            }
            sleep(period.max(LEAST_PERIOD).max(took * MOST_LOOKING));
        }
    }

    fn visit(&mut self, pid: u32) {
        let known = self.processes.entry(pid).or_insert_with(Process::new);
        if Instant::now() < known.next_look {
            return;
        }
        let begin_ns = clock::thread_cpu_ns();
        let is_time = self.every.is_some_and(|every| known.due.elapsed() >= every * known.pause);
        let freed = self.after.and_then(|after| {
            let freed = freed_bytes(pid)?;
            (freed - known.freed >= after as f64 * f64::from(known.pause)).then_some(freed)
        });
        let mut line = None;
        if is_time || freed.is_some() {
            known.due = Instant::now();
            known.freed = freed.unwrap_or(known.freed);
            let name = text::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim_end().into();
            line = known.trim_if_worth_it(&Target { pid, name, profile: open_member(pid) });
        }
        let took = Duration::from_nanos(clock::thread_cpu_ns() - begin_ns);
        known.next_look = Instant::now() + took * MOST_LOOKING;
        line.iter().for_each(|line| self.say(line));
    }

    fn say(&mut self, line: &str) {
        // A log that cannot be written is not reported: the program runs on.
        let _ = match &mut self.log {
            Some(log) => writeln!(log, "{line}"),
            None => writeln!(std::io::stderr(), "{line}"),
        };
    }
}

impl Process {
    fn new() -> Self {
        let now = Instant::now();
        Self { last: now, due: now, next_look: now, freed: 0.0, pause: 1, refusal: String::new() }
    }

    /// The log's line, if there is something to say.
    fn trim_if_worth_it(&mut self, target: &Target) -> Option<String> {
        let rss = rss_of(target.pid)?;
        let least = LEAST_BYTES.max((rss as f64 * LEAST_SHARE) as u64);
        let trimmed = match trim::prepare(target, Inside::of(target)) {
            Ok((_, lever)) if lever.gain.is_some_and(|gain| gain < least) => return None,
            Ok((callee, lever)) => trim::pull(&callee, &lever),
            Err(failure) => Err(failure),
        };
        let trimmed = match trimmed {
            Ok(trimmed) => trimmed,
            Err(failure) => return self.refuse(target, &failure),
        };
        let is_little = trimmed.rss_before.saturating_sub(trimmed.rss_after) < least;
        self.pause = if is_little { (self.pause * 2).min(MOST_PAUSE) } else { 1 };
        let line = line(target, Ok(&trimmed), self.last.elapsed());
        self.last = Instant::now();
        self.refusal.clear();
        Some(line)
    }

    /// The same refusal is said once.
    fn refuse(&mut self, target: &Target, failure: &Failure) -> Option<String> {
        let why = failure.to_string();
        let is_there = fs::read_link(format!("/proc/{}/exe", target.pid)).is_ok();
        if why == self.refusal || !is_there {
            return None;
        }
        self.refusal = why;
        Some(line(target, Err(failure), self.last.elapsed()))
    }
}

/// The log's line.
fn line(target: &Target, trimmed: Result<&Trimmed, &Failure>, period: Duration) -> String {
    #[derive(Serialize)]
    struct Line {
        ramson: u32,
        kind: &'static str,
        #[serde(flatten)]
        answer: TrimAnswer,
    }
    let answer = TrimAnswer::of(target, trimmed, Some(period));
    // Numbers and texts only: always JSON.
    serde_json::to_string(&Line { ramson: 1, kind: "trim", answer }).unwrap_or_default()
}

/// A process and its descendants that run.
fn family(root: u32) -> Vec<u32> {
    let mut found = processes::tree(root);
    found.truncate(MOST_PROCESSES);
    // A zombie has no memory, and so no files.
    found.retain(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok());
    found
}

/// Weighted bytes that the process has freed since its start; `None` if it is not profiled.
fn freed_bytes(pid: u32) -> Option<f64> {
    let recording = open_member(pid)?;
    let is_heap = |stack: &&ramson_reader::Stack| stack.kind() == Kind::Heap;
    Some(recording.snapshot.stacks.iter().filter(is_heap).map(|stack| stack.freed_space).sum())
}
