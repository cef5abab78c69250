//! What is said above the rows: the process, where its RSS is, its live bytes over time, and what is not as it should be.

use super::model::Model;
use crate::table::{cut, size, wrap};
use ramson_analysis::end::rss_and_live_text;
use ramson_analysis::interval::Intervals;
use ramson_analysis::live::watch::Watched;
use ramson_analysis::live_heap;
use ramson_analysis::recording::what_is_missing;
use ramson_analysis::rss::live_text;
use ramson_profile::SampleUnit;
use ramson_profile::format::{
    format_bytes, format_duration, format_estimate, format_half_width, format_objects,
    format_objects_short,
};
use std::iter::from_fn;
use std::time::Duration;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Default)]
pub struct Heading {
    /// `redis-server (pid 4711), running …`.
    pub title: String,
    pub rss: String,
    /// What the reader has to know before believing the numbers, the most important first.
    pub notes: Vec<String>,
}

impl Heading {
    pub fn of(watched: &Watched) -> Self {
        let recording = &watched.recording;
        let snapshot = watched.snapshot();
        let header = &snapshot.header;
        let profiled_ns = watched.now_ns().saturating_sub(header.start_monotonic_ns);
        let fate = watched.end.as_deref().unwrap_or("running");
        let title = format!(
            "{} (pid {}), {fate}, {}; interval {}, {} samples live",
            recording.name(),
            watched.pid,
            format_duration(profiled_ns),
            Intervals::of(recording),
            format_objects((snapshot.live.len() + snapshot.extents.len()) as f64),
        );
        let live = live_heap(snapshot);
        let rss = match (&watched.rss, &watched.end) {
            (Some(rss), None) => match watched.rss_bytes {
                Some(bytes) if watched.rss_age() >= OLD => {
                    let ago = format_duration(watched.rss_age().as_nanos() as u64);
                    format!("RSS {} now; as read {ago} ago: {}", size(bytes), rss.line())
                }
                _ => rss.line(),
            },
            (Some(rss), Some(_)) => format!("last {}", rss.line()),
            (None, None) => format!("RSS not readable; live {}", live_text(live)),
            (None, Some(_)) => rss_and_live_text(recording, live),
        };
        let ended = watched
            .end
            .as_ref()
            .filter(|end| *end != "copy")
            .map(|end| format!("the process is gone: {end}. This is its last picture"));
        let missing =
            what_is_missing(recording).into_iter().map(|what| format!("not complete: {what}"));
        let coverage = watched.coverage.clone().filter(|_| watched.end.is_none());
        let notes = ended.into_iter().chain(missing).chain(coverage).collect();
        Self { title, rss, notes }
    }
}

/// A split of RSS that is older is said to be so: reading a large one often would take too much.
const OLD: Duration = Duration::from_secs(5);

/// `live 108 MiB (±13 %)  ▁▂▃▅█  102 MiB to 108 MiB in 60 s`, with as many bars as there is room for.
pub fn spark_line(model: &Model, columns: usize) -> String {
    let live = model.picture.moments.total.live;
    let start = format!("live {}  ", format_estimate(live, SampleUnit::Bytes));
    let most = columns.saturating_sub(start.chars().count() + 36);
    let skipped = model.picture.history.len().saturating_sub(most);
    let points: Vec<f64> =
        model.picture.history.iter().skip(skipped).map(|&(_, live)| live).collect();
    let (least, largest) =
        points.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &point| (a.min(point), b.max(point)));
    if points.is_empty() {
        return start.trim_end().into();
    }
    let bar = |&point: &f64| match largest - least {
        0.0 => BARS[3],
        range => BARS[((point - least) / range * 7.0).round().clamp(0.0, 7.0) as usize],
    };
    let bars: String = points.iter().map(bar).collect();
    let first_ns = model.picture.history.get(skipped).map_or(0, |&(at_ns, _)| at_ns);
    let span = format_duration(model.picture.moments.now_ns.saturating_sub(first_ns));
    format!("{start}{bars}  {} to {} in {span}", format_bytes(least), format_bytes(largest))
}

/// What changed since the mark, and how fast memory is allocated and freed.
pub fn change_line(model: &Model) -> String {
    let (change, total) = (model.picture.moments.total.change(), &model.picture.moments.total);
    let since = format_duration(model.picture.moments.since_mark_ns());
    let rates = match model.picture.moments.rate_window_ns() {
        0 => String::new(),
        _ => format!(
            "; alloc {}/s, {}/s; free {}/s",
            format_bytes(total.alloc_bytes_per_s),
            format_objects_short(total.alloc_objects_per_s),
            format_bytes(total.freed_bytes_per_s),
        ),
    };
    let sign = if change.value >= 0.5 { "+" } else { "" };
    let error = format_half_width(change, SampleUnit::Bytes);
    format!("Δ {sign}{} ({error}) in {since}{rates}", format_bytes(change.value))
}

/// `line` in pieces of at most `columns` characters, broken where a part of a sum or of a sentence begins.
pub fn wrapped(line: &str, columns: usize) -> Vec<String> {
    const BREAKS: [(&str, usize); 4] = [(" + ", 1), (" − ", 1), ("; ", 2), (", ", 2)];
    let mut rest = line;
    let parts = from_fn(|| {
        let end = BREAKS.iter().filter_map(|(at, kept)| Some(rest.find(at)? + kept)).min();
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(part).filter(|part| !part.is_empty())
    });
    let lines = wrap(parts, columns, 2);
    lines.iter().map(|line| cut(line.trim_end(), Some(columns))).collect()
}
