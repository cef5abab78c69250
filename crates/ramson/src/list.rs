//! `ramson list`: what profiles there are.

use crate::cli::ListOptions;
use crate::death::prune::{self, Bounds};
use crate::death::{self, Cause, state_of, watch};
use crate::failure::Failure;
use crate::places;
use crate::source::{self, Source};
use crate::text;
use ramson_profile::format::{format_bytes, format_duration, format_relative_error};
use ramson_profile::{Estimate, SampleUnit};
use serde_json::json;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn list(options: &ListOptions) -> Result<(), Failure> {
    if options.prune {
        prune(options);
    }
    let found = source::all();
    if options.json {
        let object = json!({ "ramson": 1, "kind": "list", "profiles": found.iter().map(object).collect::<Vec<_>>() });
        return text::print(&format!("{object}\n"));
    }
    if found.is_empty() {
        text::hint("no profiles. Start a program with \"ramson run -- CMD\"");
        return Ok(());
    }
    let mut out = format!(
        "{:>8} {:<10} {:<13} {:>10} {:>8} {:>10} {:>8} {:>8}  {:<16} profile\n",
        "pid", "state", "cause", "live", "±", "RSS", "started", "ended", "name"
    );
    for source in &found {
        // A program may call itself anything.
        let line = line(source).replace(char::is_control, "\u{fffd}");
        let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
    }
    text::print(&out)
}

/// Before the list, so that it shows what is left.
fn prune(options: &ListOptions) {
    let default = Bounds::from_environment();
    let bounds = Bounds {
        age: options.max_age.map_or(default.age, |bound| bound.0),
        total_bytes: options.max_total.map_or(default.total_bytes, |bound| bound.0),
    };
    let directory = places::own_profile_directory();
    if let Some(summary) = prune::prune(&directory, bounds).summary() {
        text::hint(&format!("{}: {summary}", directory.display()));
    }
}

fn line(source: &Source) -> String {
    let live = live_bytes(source);
    let none = || "–".to_owned();
    let ago = |unix_ns| format!("-{}", format_duration(ns_since(unix_ns))).replace(' ', "");
    let ended = death::end_of(source).filter(|end| end.realtime_ns > 0);
    let cause = death::cause_of(source);
    format!(
        "{:>8} {:<10} {:<13} {:>10} {:>8} {:>10} {:>8} {:>8}  {:<16} {}",
        source.pid(),
        state_of(source),
        if cause == Cause::None { "–" } else { cause.name() },
        format_bytes(live.value),
        if live.value == 0.0 { none() } else { format_relative_error(live) },
        last_rss(source).map_or_else(none, |bytes| format_bytes(bytes as f64)),
        ago(source.snapshot.header.start_realtime_ns),
        ended.map_or_else(none, |end| ago(end.realtime_ns)),
        source.name(),
        source.origin,
    )
}

/// RSS now, or as it was last seen.
fn last_rss(source: &Source) -> Option<u64> {
    match source.running {
        Some(pid) => Some(watch::rss_of(pid).0).filter(|&bytes| bytes > 0),
        None => death::last_rss(&death::end_of(source)?).map(|(bytes, _)| bytes),
    }
}

/// Weighted bytes of the live samples.
pub fn live_bytes(source: &Source) -> Estimate {
    let samples = source.snapshot.live.iter();
    samples
        .map(|live| Estimate::of_sample(live.size, live.inverse_probability, SampleUnit::Bytes))
        .sum()
}

fn ns_since(unix_ns: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    now.saturating_sub(unix_ns)
}

fn object(source: &Source) -> serde_json::Value {
    let (header, live) = (&source.snapshot.header, live_bytes(source));
    json!({
        "pid": source.pid(),
        "name": source.name(),
        "state": state_of(source),
        "is_running": source.running.is_some(),
        "rss": last_rss(source),
        "end": death::json(source),
        "profile": source.origin,
        "command": header.command,
        "start_unix_ns": header.start_realtime_ns,
        "interval_bytes": header.interval_bytes,
        "live": { "value": live.value.round() as i64, "half_width_95": live.half_width_95().round() as i64 },
    })
}
