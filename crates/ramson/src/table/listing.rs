//! The list of profiles as text.

use super::{columns, cut};
use ramson_analysis::end::Cause;
use ramson_analysis::listing::{Entry, Listing};
use ramson_process::clock::unix_ns;
use ramson_profile::format::{format_bytes, format_duration, format_relative_error};
use std::fmt::Write;

/// The table.
pub fn text(listing: &Listing) -> String {
    let mut out = format!(
        "{:>8} {:<10} {:<13} {:>10} {:>8} {:>10} {:>8} {:>8}  {:<16} profile\n",
        "pid", "state", "cause", "live", "±", "RSS", "started", "ended", "name"
    );
    for entry in &listing.profiles {
        // A program may call itself anything.
        let line = line(entry).replace(char::is_control, "\u{fffd}");
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
    out
}

fn line(entry: &Entry) -> String {
    let none = || "–".to_owned();
    let ago = |time_ns| {
        let duration = format_duration(unix_ns().saturating_sub(time_ns));
        format!("-{duration}").replace(' ', "")
    };
    let ended = entry.end.as_ref().and_then(|end| end.time_unix_ns);
    format!(
        "{:>8} {:<10} {:<13} {:>10} {:>8} {:>10} {:>8} {:>8}  {:<16} {}",
        entry.pid,
        entry.state,
        if entry.cause == Cause::None { "–" } else { entry.cause.name() },
        format_bytes(entry.live.value),
        if entry.live.value == 0.0 { none() } else { format_relative_error(entry.live) },
        entry.rss.map_or_else(none, |bytes| format_bytes(bytes as f64)),
        ago(entry.start_unix_ns),
        ended.map_or_else(none, ago),
        entry.name,
        entry.profile,
    )
}
