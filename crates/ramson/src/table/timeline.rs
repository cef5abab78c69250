//! The series of a history as text.

use super::{Table, or_dash, push_rest, size};
use ramson_analysis::timeline::{Gaps, Timeline};
use ramson_profile::Estimate;
use ramson_profile::format::{
    format_bytes, format_duration, format_local_time, format_objects, format_relative_error,
};
use std::fmt::Write;

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
            half_width(row.live),
            row.live_samples,
            row.allocated,
            row.triggers.replace(',', " "),
        );
    }
    out
}

/// Empty where records were lost: the value is at least that much.
fn half_width(live: Estimate) -> String {
    if live.is_part() { String::new() } else { live.half_width_95().ceil().to_string() }
}

pub fn text(timeline: &Timeline) -> String {
    let mut out = format!(
        "{} (pid {}): {} moments in {}\n\n",
        timeline.name,
        timeline.pid,
        timeline.moments,
        timeline.history.display(),
    );
    let heads = "time:<19|RSS:>10|live:>10|±:>7|allocated/s:>12|samples:>8|why";
    let mut table = Table::new(&mut out, heads);
    for row in &timeline.rows {
        if let Some(gaps) = &row.gaps {
            table.line_across(&gap_line(gaps));
        }
        table.row([
            format_local_time(row.time_unix_ns),
            or_dash(row.rss.map(size)),
            format_bytes(row.live.value),
            format_relative_error(row.live),
            or_dash(row.allocated_per_s.map(format_bytes)),
            format_objects(row.live_samples as f64),
            row.triggers.clone(),
        ]);
    }
    push_rest(&mut out, timeline.moments, timeline.rows.len(), " moments");
    out
}

fn gap_line(gaps: &Gaps) -> String {
    let longest = format_duration(gaps.longest_ns);
    match gaps.count {
        1 => format!("                    (no snapshot for {longest})"),
        count => format!("                    ({count} times no snapshot, for up to {longest})"),
    }
}
