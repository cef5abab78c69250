//! `ramson list`: what profiles there are.

use crate::cli::ListOptions;
use crate::failure::Failure;
use crate::source::{self, Source};
use crate::text;
use ramson_format::state;
use ramson_profile::format::{format_bytes, format_relative_error};
use ramson_profile::{Estimate, SampleUnit};
use serde_json::json;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn list(options: &ListOptions) -> Result<(), Failure> {
    let found = source::all();
    if options.json {
        let object = json!({ "ramson": 1, "kind": "list", "profiles": found.iter().map(object).collect::<Vec<_>>() });
        return text::print(format!("{object}\n").as_bytes());
    }
    if found.is_empty() {
        text::hint("no profiles. Start a program with \"ramson run -- CMD\"");
        return Ok(());
    }
    let mut out = format!(
        "{:>8} {:<10} {:>10} {:>8} {:>8}  {:<16} profile\n",
        "pid", "state", "live", "±", "started", "name"
    );
    for source in &found {
        let live = live_bytes(source);
        let line = format!(
            "{:>8} {:<10} {:>10} {:>8} {:>8}  {:<16} {}",
            source.pid(),
            state_of(source),
            format_bytes(live.value),
            if live.value == 0.0 { "–".into() } else { format_relative_error(live) },
            format!("-{}", text::duration(age_seconds(source))).replace(' ', ""),
            source.name(),
            source.origin,
        );
        let _ = writeln!(out, "{}", text::cut(&line, text::columns()));
    }
    text::print(out.as_bytes())
}

/// Weighted bytes of the live samples.
pub fn live_bytes(source: &Source) -> Estimate {
    let samples = source.snapshot.live.iter();
    samples
        .map(|live| Estimate::of_sample(live.size, live.inverse_probability, SampleUnit::Bytes))
        .sum()
}

/// One word for how the process is or how it ended.
pub fn state_of(source: &Source) -> String {
    let header = &source.snapshot.header;
    match (source.running, header.state, header.exit_status) {
        (Some(_), ..) => "running".into(),
        (None, state::EXITED, -1) => "exited".into(),
        (None, state::EXITED, status) => format!("exited {}", status & 255),
        _ => "died".into(),
    }
}

fn age_seconds(source: &Source) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    now.saturating_sub(source.snapshot.header.start_realtime_ns) / 1_000_000_000
}

fn object(source: &Source) -> serde_json::Value {
    let (header, live) = (&source.snapshot.header, live_bytes(source));
    json!({
        "pid": source.pid(),
        "name": source.name(),
        "state": state_of(source),
        "is_running": source.running.is_some(),
        "profile": source.origin,
        "command": header.command,
        "start_unix_ns": header.start_realtime_ns,
        "interval_bytes": header.interval_bytes,
        "live": { "value": live.value.round() as i64, "half_width_95": live.half_width_95().round() as i64 },
    })
}
