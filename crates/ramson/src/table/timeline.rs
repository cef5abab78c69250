//! The series of a history as text.

use super::chart::chart;
use super::{Table, columns, or_dash, push_rest, size};
use ramson_analysis::timeline::{Gaps, Point, Row, Timeline};
use ramson_profile::format::{
    format_amount, format_bytes, format_duration, format_local_time, format_objects,
    format_relative_error,
};
use ramson_profile::{Estimate, SampleUnit, printable};

/// Columns of a picture where nothing says how many there are.
const USUAL_COLUMNS: usize = 80;

pub fn text(timeline: &Timeline, has_chart: bool) -> String {
    let place = timeline.history.as_ref().map(|path| format!(" in {}", path.display()));
    let Timeline { name, pid, moments, .. } = timeline;
    let first = format!("{name} (pid {pid}): {moments} moments{}", place.unwrap_or_default());
    let mut out = (printable(&first) + "\n\n").into_owned();
    let is_held = timeline.rows.iter().any(|row| row.held.is_some());
    let words = if is_held { ("held", "held by") } else { ("free", "free in") };
    let width = columns().unwrap_or(USUAL_COLUMNS);
    let picture =
        has_chart.then(|| chart(&timeline.curve, &timeline.marks, words.1, width)).flatten();
    out.extend(picture.map(|picture| picture + "\n"));
    let time = timeline.rows.first().map_or(0, |row| format_local_time(row.time_unix_ns).len());
    let heads = format!(
        "time:<{time}|RSS:>10|live:>10|±:>7@70|{}:>10@80|allocated/s:>12@100|samples:>8@110|why",
        words.0
    );
    let mut table = Table::new(&mut out, &heads);
    let peaks = Peaks::of(&timeline.curve);
    for row in &timeline.rows {
        let free = row.free.or(row.held);
        if let Some(gaps) = &row.gaps {
            table.line_across(&gap_line(gaps));
        }
        table.row([
            format_local_time(row.time_unix_ns),
            or_dash(row.rss.map(size)),
            format_amount(row.live, SampleUnit::Bytes),
            format_relative_error(row.live),
            or_dash(free.map(free_text)),
            or_dash(row.allocated_per_s.map(format_bytes)),
            format_objects(row.live_samples as f64),
            why(timeline, row, &peaks),
        ]);
    }
    push_rest(&mut out, timeline.moments, timeline.rows.len(), " moments");
    out
}

/// `12 MiB`, or `≤3.1 MiB` where it may be nothing.
fn free_text(free: Estimate) -> String {
    if free.is_significant() {
        return format_amount(free, SampleUnit::Bytes);
    }
    format!("≤{}", format_bytes(free.value.max(0.0) + free.half_width_95()))
}

/// The first times of the highest values, which need not be among the rows.
struct Peaks {
    live: Option<u64>,
    rss: Option<u64>,
}

impl Peaks {
    /// Finds the peaks; a single moment has none.
    fn of(all: &[Point]) -> Self {
        // The last of equal ones in this order counts.
        let several = || all.iter().rev().filter(|_| all.len() > 1);
        let live = several().max_by(|a, b| a.live.total_cmp(&b.live));
        let rss = several().max_by_key(|point| point.rss);
        let time = |point: Option<&Point>| point.map(|point| point.time_unix_ns);
        Self { live: time(live), rss: time(rss) }
    }
}

/// Reasons that set the moment apart: neither that it was time for one, nor that it was once the highest.
fn why(timeline: &Timeline, row: &Row, peaks: &Peaks) -> String {
    let is = |peak: Option<u64>| peak == Some(row.time_unix_ns);
    let peaks = [(is(peaks.live), "live peak"), (is(peaks.rss), "RSS peak")];
    let peaks = peaks.into_iter().filter(|(is_it, _)| *is_it).map(|(_, name)| name.to_owned());
    let is_common =
        |word: &&str| !["clock", "bytes", "live-peak", "rss-peak", "mark"].contains(word);
    let words = row.triggers.split(',').filter(is_common).map(str::to_owned);
    let its = timeline.marks.iter().filter(|mark| mark.time_unix_ns == row.time_unix_ns);
    let marks = its.map(|mark| format!("mark {}", mark.name));
    marks.chain(words).chain(peaks).collect::<Vec<_>>().join(", ")
}

fn gap_line(gaps: &Gaps) -> String {
    let longest = format_duration(gaps.longest_ns);
    match gaps.count {
        1 => format!("                    (no snapshot for {longest})"),
        count => format!("                    (no snapshot {count} times, for up to {longest})"),
    }
}
