//! `ramson trim`: makes a process return its allocator's free memory to the kernel, once, and says what came of it.

use crate::flags::{ScheduleFlags, TrimFlags};
use crate::output::{print, print_json};
use ramson_control::{Schedule, TrimAnswer, Trimmed, Trims};
use ramson_profile::format::format_bytes;
use ramson_source::{Failure, Target, find_targets};
use std::fs::File;
use std::time::Duration;

pub fn trim(flags: &TrimFlags) -> Result<(), Failure> {
    let targets = find_targets(&flags.sources)?;
    if let ([target], []) = (targets.found.as_slice(), targets.refused.as_slice()) {
        let trimmed = ramson_control::trim(target)?;
        return match flags.json {
            true => print_json("trim", &TrimAnswer::of(target, Ok(&trimmed), None)),
            false => print(&text(target, &trimmed)),
        };
    }
    let trims = ramson_control::trim_all(&targets)?;
    match flags.json {
        true => print_json("trim", &trims),
        false => print(&table_of(&trims)),
    }
}

/// A line for each.
fn table_of(trims: &Trims) -> String {
    let mut out = format!(
        "{:>10} {:>10} {:>10} {:>10} {:>9}  process\n",
        "pid", "RSS", "after", "back", "stopped"
    );
    let size = |bytes: Option<u64>| bytes.map_or("–".into(), |bytes| format_bytes(bytes as f64));
    for one in &trims.processes {
        let back = one.rss_diff.map_or("–".into(), |bytes| format_bytes(bytes as f64));
        let stopped = one.stopped_ms.map_or("–".into(), |time| format!("{time:.1} ms"));
        out += &format!(
            "{:>10} {:>10} {:>10} {back:>10} {stopped:>9}  {}: {}\n",
            one.pid,
            size(one.rss_before),
            size(one.rss_after),
            one.name,
            one.message
        );
    }
    out
}

fn text(target: &Target, trimmed: &Trimmed) -> String {
    let (before, after) = (trimmed.rss_before, trimmed.rss_after);
    let came = match before.checked_sub(after) {
        Some(bytes) => format!("{} returned", format_bytes(bytes as f64)),
        None => format!("nothing returned, {} more", format_bytes((after - before) as f64)),
    };
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    format!(
        "{} (pid {}): RSS {} → {}: {came} in {}\n{}, which was stopped for {}\n",
        target.name,
        target.pid,
        format_bytes(before as f64),
        format_bytes(after as f64),
        milliseconds(trimmed.elapsed),
        trimmed.message(),
        milliseconds(trimmed.called.stopped),
    )
}

/// What `run --trim-every` and `--trim-after` ask for; `None` if neither is used. Fails if the log cannot be written.
pub fn schedule(flags: &ScheduleFlags) -> Result<Option<Schedule>, String> {
    if flags.trim_every.is_none() && flags.trim_after.is_none() {
        return Ok(None);
    }
    let open = |path: &std::path::PathBuf| {
        let opened = File::options().create(true).append(true).open(path);
        opened.map_err(|error| format!("{}: {error}. Choose another FILE", path.display()))
    };
    let log = flags.trim_log.as_ref().map(open).transpose()?;
    Ok(Some(Schedule::new(flags.trim_every.map(Duration::from_nanos), flags.trim_after, log)))
}
