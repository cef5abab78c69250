//! `ramson trim`: has a process's allocator give back what it keeps free, once, and says what came of it.

mod lever;
pub mod outside;
pub mod refusal;
pub mod schedule;

use crate::doctor::target::{self, Target};
use crate::failure::Failure;
use crate::text;
use clap::Args;
use ramson_inject::Called;
use ramson_profile::format::format_bytes;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Nothing is trimmed unless this command, or \"ramson run --trim-every\" or \"--trim-after\", is used. One thread works for the time of the
trim; the others run on.

Examples:
  ramson trim 4711
  ramson trim name:my-server --json")]
pub struct TrimOptions {
    /// A process ID, name:NAME of a process, or the profile file of one that runs
    #[arg(value_name = "SRC")]
    pub source: String,
    /// One JSON object instead of two lines
    #[arg(long)]
    pub json: bool,
}

/// What came of a trim.
pub struct Trimmed {
    pub rss_before: u64,
    pub rss_after: u64,
    /// The search for a thread included.
    pub elapsed: Duration,
    /// The allocator's function.
    pub function: &'static str,
    pub called: Called,
}

pub fn trim(options: &TrimOptions) -> Result<(), Failure> {
    let target = target::find(&options.source)?;
    let trimmed = outside::prepare(&target)?.trim()?;
    if options.json {
        return text::print(&format!("{}\n", object(&target, Ok(&trimmed), None)));
    }
    text::print(&lines(&target, &trimmed))
}

fn lines(target: &Target, trimmed: &Trimmed) -> String {
    let (before, after) = (trimmed.rss_before, trimmed.rss_after);
    let came = match before.checked_sub(after) {
        Some(bytes) => format!("{} given back", format_bytes(bytes as f64)),
        None => format!("nothing given back, {} more", format_bytes((after - before) as f64)),
    };
    format!(
        "{} (pid {}): RSS {} → {}: {came} in {}\n{}, which was stopped for {}\n",
        target.name,
        target.pid,
        format_bytes(before as f64),
        format_bytes(after as f64),
        milliseconds(trimmed.elapsed),
        message(trimmed),
        milliseconds(trimmed.called.stopped),
    )
}

fn message(trimmed: &Trimmed) -> String {
    let called = &trimmed.called;
    format!("{} on thread {} ({})", trimmed.function, called.tid, called.name)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// The object of `--json` and of the log: of a trim, or of why there was none. `period` is the time since the last one.
fn object(target: &Target, trimmed: Result<&Trimmed, &Failure>, period: Option<Duration>) -> Value {
    let milliseconds = |time: Duration| time.as_micros() as f64 / 1e3;
    let found = trimmed.as_ref().ok();
    json!({
        "ramson": 1,
        "kind": "trim",
        "pid": target.pid,
        "name": target.name,
        "period_ms": period.map(milliseconds),
        "elapsed_ms": found.map(|trimmed| milliseconds(trimmed.elapsed)),
        "stopped_ms": found.map(|trimmed| milliseconds(trimmed.called.stopped)),
        "tid": found.map(|trimmed| trimmed.called.tid),
        "rss_before": found.map(|trimmed| trimmed.rss_before),
        "rss_after": found.map(|trimmed| trimmed.rss_after),
        "rss_diff": found.map(|trimmed| trimmed.rss_before as i64 - trimmed.rss_after as i64),
        "message": trimmed.map_or_else(ToString::to_string, message),
    })
}

/// RSS in bytes, as smaps adds it up; `None` if the process is gone.
pub fn rss_of(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    Some(kib.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
