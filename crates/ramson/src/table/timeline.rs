//! The series of a history as text.

use super::{columns, cut};
use ramson_analysis::timeline::{Gaps, Timeline};
use ramson_profile::format::{
    format_bytes, format_duration, format_local_time, format_objects, format_relative_error,
};
use std::fmt::Write;

/// Comma-separated values.
pub fn csv(timeline: &Timeline) -> String {
    let mut out = String::from(
        "time_unix_ns,rss_bytes,live_bytes,live_half_width_95,live_samples,allocated_bytes,triggers\n",
    );
    for row in &timeline.rows {
        let rss = row.rss.map_or(String::new(), |rss| rss.to_string());
        let _ = writeln!(
            out,
            "{},{rss},{},{},{},{},{}",
            row.time_unix_ns,
            row.live.value,
            row.live.half_width_95().ceil(),
            row.live_samples,
            row.allocated,
            row.triggers.replace(',', " "),
        );
    }
    out
}

/// The table.
pub fn text(timeline: &Timeline) -> String {
    let mut out = format!(
        "{} (pid {}): {} moments in {}\n\n{:<19} {:>10} {:>10} {:>7} {:>12} {:>8}  why\n",
        timeline.name,
        timeline.pid,
        timeline.moments,
        timeline.history.display(),
        "time",
        "RSS",
        "live",
        "±",
        "allocated/s",
        "samples"
    );
    let none = || "–".to_owned();
    for row in &timeline.rows {
        if let Some(gaps) = &row.gaps {
            let _ = writeln!(out, "{}", cut(&gap_line(gaps), columns()));
        }
        let line = format!(
            "{:<19} {:>10} {:>10} {:>7} {:>12} {:>8}  {}",
            format_local_time(row.time_unix_ns),
            row.rss.map_or_else(none, |rss| format_bytes(rss as f64)),
            format_bytes(row.live.value),
            format_relative_error(row.live),
            row.allocated_per_s.map_or_else(none, format_bytes),
            format_objects(row.live_samples as f64),
            row.triggers,
        );
        let _ = writeln!(out, "{}", cut(&line, columns()));
    }
    let shown = timeline.rows.len();
    if shown < timeline.moments {
        let _ = writeln!(out, "({} more moments; -n 0 shows all)", timeline.moments - shown);
    }
    out
}

fn gap_line(gaps: &Gaps) -> String {
    let longest = format_duration(gaps.longest_ns);
    match gaps.count {
        1 => format!("                    (no snapshot for {longest})"),
        count => format!("                    ({count} times no snapshot, for up to {longest})"),
    }
}
