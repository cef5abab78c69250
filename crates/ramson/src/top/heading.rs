//! Text above the rows: the process, what its RSS is, and what is not as it should be. Each is one line, so that no row
//! moves.

use super::model::Model;
use ramson_analysis::attachment;
use ramson_analysis::end::rss_and_live_text;
use ramson_analysis::interval::Intervals;
use ramson_analysis::live::watch::{Watched, free_or_held};
use ramson_analysis::recording::what_is_missing;
use ramson_analysis::rss::{Rss, live_text};
use ramson_analysis::{has_go, live_heap};
use ramson_process::Term;
use ramson_profile::format::{
    format_bytes, format_duration, format_estimate, format_objects, format_percent, format_term,
};
use ramson_profile::{Estimate, SampleUnit};

#[derive(Default)]
pub struct Heading {
    /// `redis-server (pid 4711), running …`.
    pub title: String,
    /// Resident and live bytes of the same moment.
    pub rss: String,
    /// Other terms of RSS, largest first, and when they were read.
    pub split: Option<Split>,
    /// Facts that the reader must know before believing the numbers, the most important first.
    pub notes: Vec<String>,
    /// RSS, live, and free in the allocator, each with its value, and shorter.
    pub charts: [[String; 2]; 3],
}

/// The terms of RSS except live, which are read less often.
#[derive(Default)]
pub struct Split {
    /// What it is of: `rest` if live bytes are none of the terms.
    name: &'static str,
    age_ns: u64,
    terms: Vec<String>,
}

impl Heading {
    pub fn of(watched: &Watched) -> Self {
        let recording = &watched.followed.recording;
        let snapshot = watched.followed.snapshot();
        let header = &snapshot.header;
        // While it runs, since when it is what it is said to be.
        let (fate, since_ns) = match watched.end.as_deref() {
            Some(end) => (end, header.start_monotonic_ns),
            None => {
                let state = attachment::state_of(recording).unwrap_or("running");
                (state, attachment::since_ns(recording))
            }
        };
        let since_ns = watched.now_ns().saturating_sub(since_ns);
        let ago_ns = recording.read_ns.saturating_sub(header.last_monotonic_ns);
        let as_of = match recording.is_of_go() && watched.end.is_none() {
            true => format!(", as of {} ago", format_duration(ago_ns)),
            false => String::new(),
        };
        let title = format!(
            "{} (pid {}), {fate}, {}{as_of}; {} samples live; interval {}",
            recording.name(),
            watched.followed.pid,
            format_duration(since_ns),
            format_objects((snapshot.live.len() + snapshot.extents.len()) as f64),
            Intervals::of(recording),
        );
        let live = live_heap(snapshot);
        let rss = match (watched.rss_bytes, &watched.end) {
            (Some(bytes), _) if attachment::is_detached(recording) => {
                format!(
                    "RSS {}; live at the detach {}",
                    format_bytes(bytes as f64),
                    live_text(live)
                )
            }
            (Some(bytes), _) if has_go(snapshot) => {
                format!("RSS {}; live {}", format_bytes(bytes as f64), live_text(live))
            }
            (Some(bytes), None) => equation(bytes, live),
            (Some(bytes), Some(_)) => format!("last {}", equation(bytes, live)),
            (None, None) => format!("RSS not readable; live {}", live_text(live)),
            (None, Some(_)) => rss_and_live_text(recording, live),
        };
        let ended = watched
            .end
            .as_ref()
            .filter(|end| *end != "copy")
            .map(|end| format!("the process is gone: {end}. This is its last state"));
        let missing =
            what_is_missing(recording).into_iter().map(|what| format!("not complete: {what}"));
        let coverage = watched.coverage.clone().filter(|_| watched.end.is_none());
        let notes = ended.into_iter().chain(missing).chain(coverage).collect();
        let split = watched.rss.as_ref().filter(|_| watched.end.is_none());
        let split = split.map(|rss| Split::of(rss, watched.rss_age().as_nanos() as u64));
        let unreadable = || ["RSS not readable".to_owned(), "RSS –".into()];
        let rss_text =
            |bytes| ["RSS", "RSS"].map(|name| format!("{name} {}", format_bytes(bytes as f64)));
        let charts = [
            watched.rss_bytes.map_or_else(unreadable, rss_text),
            ["live", "live"].map(|name| format!("{name} {}", live_text(live))),
            watched
                .rss
                .as_ref()
                .map_or_else(|| ["free: not read yet".into(), "free –".into()], free_text),
        ];
        Self { title, rss, split, notes, charts }
    }
}

/// `RSS 124 MiB = live 97.1 MiB (±4.9%) + rest 26.9 MiB (±18%)`.
fn equation(rss_bytes: u64, live: Estimate) -> String {
    let rss = format_bytes(rss_bytes as f64);
    let live_text = live_text(live);
    let rest = Estimate { value: rss_bytes as f64 - live.value, ..live };
    if rest.value >= 0.0 {
        let rest = if live.is_part() {
            format!("at most {}", format_bytes(rest.value))
        } else {
            format_estimate(rest, SampleUnit::Bytes)
        };
        return format!("RSS {rss} = live {live_text} + rest {rest}");
    }
    let why = if rest.is_significant() { "never touched, or swapped out" } else { "within ±" };
    let excess = format_bytes(-rest.value);
    format!("RSS {rss}; live {live_text} exceeds it by {excess} ({why})")
}

fn free_text(rss: &Rss) -> [String; 2] {
    let (term, bytes) = free_or_held(rss);
    let word = rss.word(term);
    let short = word.split(' ').next().unwrap_or_default();
    [&word, short].map(|name| format!("{name} {}", format_term(bytes)))
}

impl Split {
    fn of(rss: &Rss, age_ns: u64) -> Self {
        let terms = Term::ALL.iter().map(|&(term, _)| (term, rss.term(term)));
        let mut terms: Vec<(Term, Estimate)> =
            terms.filter(|(term, bytes)| *term != Term::Live && bytes.value != 0.0).collect();
        terms.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
        let text = |(term, bytes)| format!("{} {}", rss.word(term), format_term(bytes));
        // Of a Go heap a part is live.
        let name = if rss.term(Term::GoHeap).value > 0.0 { "RSS" } else { "rest" };
        Self { name, age_ns, terms: terms.into_iter().map(text).collect() }
    }

    /// `rest, 3 s ago: free in malloc 31.8 MiB (±2.2%), files 3.12 MiB, 4 more`: as many terms as there is room for.
    pub fn line(&self, columns: usize) -> String {
        let mut line = format!("{}, {} s ago:", self.name, self.age_ns / 1_000_000_000);
        let all = self.terms.len();
        for (index, term) in self.terms.iter().enumerate() {
            let end =
                if index + 1 < all { format!(", {} more", all - index - 1) } else { String::new() };
            let separator = if index == 0 { " " } else { ", " };
            let length =
                (line.chars().count() + separator.len() + term.chars().count()) + end.len();
            if length > columns {
                return match index {
                    0 => line + &format!(" {all} terms"),
                    _ => line + &format!(", {} more", all - index),
                };
            }
            line += separator;
            line += term;
        }
        line
    }
}

/// Text of the row of all stacks after its numbers: rates and the age of the mark, or what the filter leaves.
pub fn total_text(model: &Model) -> String {
    let moments = &model.picture.moments;
    let total = &model.shown;
    if let Some(filter) = filter_text(model) {
        return filter;
    }
    let rates = match moments.rate_window_ns() {
        0 => String::new(),
        _ => format!(
            ", alloc {}/s, free {}/s",
            format_bytes(total.alloc_bytes_per_s),
            format_bytes(total.freed_bytes_per_s),
        ),
    };
    format!("sum, Δ in {}{rates}", format_duration(moments.since_mark_ns()))
}

/// `filter Session: 12 rows, 63.7% of live`.
fn filter_text(model: &Model) -> Option<String> {
    let filter = model.filter.as_ref()?;
    let rows = match model.row_count() {
        1 => "1 row".into(),
        count => format!("{count} rows"),
    };
    let (shown, total) = (model.shown.live.value, model.picture.moments.total.live.value);
    Some(format!("filter {}: {rows}, {} of live", filter.as_str(), format_percent(shown, total)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    #[test]
    fn rss_is_live_and_rest() {
        let live = |mib: f64, half_width_mib: f64| {
            Estimate::new(mib * MIB, (half_width_mib * MIB / 1.959_964).powi(2))
        };
        let of = |live| equation(100 << 20, live);
        assert_eq!(of(live(60.0, 6.0)), "RSS 100 MiB = live 60.0 MiB (±10%) + rest 40 MiB (±15%)");
        assert_eq!(
            of(live(104.0, 6.0)),
            "RSS 100 MiB; live 104 MiB (±5.8%) exceeds it by 4.00 MiB (within ±)"
        );
        assert_eq!(
            of(live(150.0, 6.0)),
            "RSS 100 MiB; live 150 MiB (±4.0%) exceeds it by 50.0 MiB (never touched, or swapped out)"
        );
        assert_eq!(
            of(live(60.0, 0.0).as_part()),
            "RSS 100 MiB = live ≥ 60.0 MiB + rest at most 40.0 MiB"
        );
    }

    #[test]
    fn terms_that_fit_are_shown() {
        let terms = ["free in malloc 31.8 MiB", "files 3.12 MiB", "stacks 12.0 KiB"];
        let split =
            Split { name: "rest", age_ns: 3_900_000_000, terms: terms.map(str::to_owned).to_vec() };
        assert_eq!(split.line(200), format!("rest, 3 s ago: {}", terms.join(", ")));
        assert_eq!(
            split.line(62),
            "rest, 3 s ago: free in malloc 31.8 MiB, files 3.12 MiB, 1 more"
        );
        assert_eq!(split.line(61), "rest, 3 s ago: free in malloc 31.8 MiB, 2 more");
        assert_eq!(split.line(20), "rest, 3 s ago: 3 terms");
    }
}
