//! History of a process, moment by moment.

use crate::extents;
use crate::live::watch::free_or_held;
use crate::rss::Rss;
use crate::steps::{Seen, Step, steps};
use crate::terms::Terms;
use ramson_format::Kind;
use ramson_history::{Free, Moment, Span, Triggers, When};
use ramson_process::Term;
use ramson_process::clock::unix_ns;
use ramson_process::stat::Stat;
use ramson_profile::Estimate;
use ramson_source::{Failure, Recording, Selector, find, time_of, unreadable};
use serde::Serialize;
use std::iter;
use std::path::PathBuf;

/// With fewer rows, the highest moments are not among them for themselves.
const LEAST_ROWS_WITH_PEAKS: usize = 10;

/// The answer.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Timeline {
    /// The program's name.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// Path of the history; null: there is none of this process.
    pub history: Option<PathBuf>,
    /// How many moments there are.
    pub moments: usize,
    /// The moments that the user marked.
    pub marks: Vec<Mark>,
    /// Those moments that are shown, in their order.
    pub rows: Vec<Row>,
    /// Steps in which RSS rose or fell within a short time, and live did not follow.
    pub steps: Vec<Step>,
    /// All of them, for a picture.
    #[serde(skip)]
    pub curve: Vec<Point>,
}

/// A moment with a name.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Mark {
    /// As `ramson mark` was given it.
    pub name: String,
    /// Nanoseconds since 1970.
    pub time_unix_ns: u64,
}

/// A moment as a picture shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Resident bytes.
    pub rss: Option<u64>,
    /// Live bytes.
    pub live: f64,
    /// Free in the allocator, or held by it.
    pub free: Option<f64>,
    /// Snapshots are missing between the point before and this one.
    pub is_after_gap: bool,
}

/// One moment.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Resident bytes.
    pub rss: Option<u64>,
    /// Live bytes.
    pub live: Estimate,
    /// Free in the allocator; null where that was not read, or its allocator cannot be read.
    #[serde(rename = "free_in_allocator")]
    pub free: Option<Estimate>,
    /// Memory of an allocator that ramson cannot read, without what the profile counts as live; null for other allocators.
    #[serde(rename = "held_by_allocator")]
    pub held: Option<Estimate>,
    /// RSS without these: what is live by the profile, and free or held. Less than 0 where the estimate of live exceeds RSS;
    /// null where one of them is not known.
    pub rest: Option<Estimate>,
    /// Bytes of the terms of RSS that are not 0; they add up to it. Null where they were not read.
    pub terms: Option<Terms>,
    /// Live samples, as counted.
    pub live_samples: u64,
    /// Bytes allocated since the start.
    pub allocated: u64,
    /// Bytes allocated per second since the row before.
    pub allocated_per_s: Option<f64>,
    /// Why the moment was kept, comma-separated.
    pub triggers: String,
    /// Times without a snapshot between the row before and this one; null: none.
    pub gaps: Option<Gaps>,
}

/// Times without a snapshot though one was due.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

/// The series of `SRC` or `SRC@FROM..TO`, at most so many rows of it; 0: all.
pub fn timeline(source: &str, rows: usize) -> Result<Timeline, Failure> {
    let selector = Selector::parse(source)?;
    let (from, to) = match selector.span.clone() {
        None => (When::At(0), When::Last),
        Some(Span::Range(from, to)) => (from, to),
        Some(Span::Moment(_)) => {
            return Err(Failure::usage(format!(
                "{source}: a moment, not a range. Pass a range, as in {}@-2h..-1h",
                selector.base_text
            )));
        }
    };
    let found = find(&selector, &to)?;
    let from_ns = match &from {
        When::Ago(_) | When::At(_) => time_of(&from),
        _ => found.earlier(source, &from)?.map_or(0, |moment| moment.time_ns),
    };
    let broken = |error| unreadable(&found.path, &error);
    let series =
        found.history.series(found.process.id, from_ns, found.moment.time_ns).map_err(broken)?;
    if series.is_empty() {
        return Err(Failure::usage(format!(
            "{source}: the range ends before it begins. Swap its ends"
        )));
    }
    let ends = (series[0].time_ns, series[series.len() - 1].time_ns);
    let marks = found.history.marks(found.process.id).map_err(broken)?.into_iter();
    let marks = marks.filter(|(_, time_ns)| (ends.0..=ends.1).contains(time_ns));
    let marks = marks.map(|(name, time_unix_ns)| Mark { name, time_unix_ns });
    let shown = chosen(&series, rows);
    let before = iter::once(None).chain(shown.iter().map(Some));
    let row = |(moment, before): (&&Moment, Option<&&Moment>)| Row {
        time_unix_ns: moment.time_ns,
        rss: moment.rss,
        live: moment.live,
        free: part(moment.free, false),
        held: part(moment.free, true),
        rest: rest(moment.rss, moment.live, moment.free),
        terms: moment.terms.map(Terms),
        live_samples: moment.live_samples,
        allocated: moment.allocated,
        allocated_per_s: before.map(|before| {
            let seconds = (moment.time_ns - before.time_ns) as f64 / 1e9;
            moment.allocated.saturating_sub(before.allocated) as f64 / seconds
        }),
        triggers: moment.triggers.to_string(),
        gaps: before.and_then(|before| gaps(&series, before, moment)),
    };
    Ok(Timeline {
        name: found.process.name.clone(),
        pid: found.process.pid,
        history: Some(found.path.clone()),
        moments: series.len(),
        marks: marks.collect(),
        rows: shown.iter().zip(before).map(row).collect(),
        steps: steps(&series.iter().filter_map(seen).collect::<Vec<_>>()),
        curve: curve(&series),
    })
}

impl Timeline {
    /// Returns the timeline of a process that no history has.
    pub fn without_history(recording: &Recording) -> Self {
        Self {
            name: recording.name().to_owned(),
            pid: recording.pid(),
            history: None,
            moments: 0,
            marks: Vec::new(),
            rows: Vec::new(),
            steps: Vec::new(),
            curve: Vec::new(),
        }
    }
}

/// A recording as a row: as it is now, of which this RSS was read, or at the moment that it shows.
pub fn row(recording: &Recording, rss: Option<&Rss>) -> Row {
    let snapshot = &recording.snapshot;
    let header = &snapshot.header;
    let heap = snapshot.stacks.iter().filter(|stack| stack.kind() == Kind::Heap);
    let allocated: f64 = heap.map(|stack| stack.alloc_space).sum();
    let last_ns = header.unix_ns(header.last_monotonic_ns);
    let (time_unix_ns, (rss, free, terms)) = match (&recording.past, recording.running) {
        (Some(past), _) => (past.time_ns, (past.rss, past.free, past.terms.map(Terms))),
        (None, Some(pid)) => match rss {
            Some(rss) => {
                let Split { rss, free, terms } = Split::of(rss);
                (unix_ns(), (Some(rss), free, Some(terms)))
            }
            None => (unix_ns(), (Stat::of(pid).and_then(|stat| stat.rss), None, None)),
        },
        (None, None) => (last_ns, (None, None, None)),
    };
    let live = extents::live_heap(snapshot);
    Row {
        time_unix_ns,
        rss,
        live,
        rest: rest(rss, live, free),
        free: part(free, false),
        held: part(free, true),
        terms,
        live_samples: snapshot.live.len() as u64,
        allocated: allocated.round() as u64,
        allocated_per_s: None,
        triggers: String::new(),
        gaps: None,
    }
}

/// The parts of a reading of RSS that a history keeps.
pub struct Split {
    /// Sum of the terms, in bytes.
    pub rss: u64,
    /// Memory that the allocator has free or holds, if that is known.
    pub free: Option<Free>,
    /// All terms of RSS.
    pub terms: Terms,
}

impl Split {
    /// Takes the parts from a reading of RSS.
    pub fn of(rss: &Rss) -> Self {
        let (term, bytes) = free_or_held(rss);
        let is_held = term == Term::Held;
        let is_known = rss.is_live_counted || term != Term::Free;
        let free = is_known.then_some(Free { bytes, is_held });
        Self { rss: rss.bytes, free, terms: Terms::of(rss) }
    }
}

fn part(free: Option<Free>, is_held: bool) -> Option<Estimate> {
    free.filter(|free| free.is_held == is_held).map(|free| free.bytes)
}

fn rest(rss: Option<u64>, live: Estimate, free: Option<Free>) -> Option<Estimate> {
    Some(Estimate::exact(rss? as f64) - live - free?.bytes)
}

fn seen(moment: &Moment) -> Option<Seen> {
    Some(Seen {
        unix_ns: moment.time_ns,
        rss: moment.rss?,
        live: moment.live,
        free: moment.free.map(|free| free.bytes),
        terms: moment.terms.map(Terms),
    })
}

fn curve(series: &[Moment]) -> Vec<Point> {
    let before = iter::once(None).chain(series.iter().map(Some));
    let point = |(moment, before): (&Moment, Option<&Moment>)| Point {
        time_unix_ns: moment.time_ns,
        rss: moment.rss,
        live: moment.live.value,
        free: moment.free.map(|free| free.bytes.value),
        is_after_gap: before.is_some_and(|before| gaps(series, before, moment).is_some()),
    };
    series.iter().zip(before).map(point).collect()
}

/// Returns the gaps between two moments: the recorder took no snapshot although one was due more than one interval before the
/// next. Something kept the recorder from it, or the recorder did not run.
fn gaps(series: &[Moment], from: &Moment, to: &Moment) -> Option<Gaps> {
    let start = series.partition_point(|moment| moment.time_ns < from.time_ns);
    let end = series.partition_point(|moment| moment.time_ns <= to.time_ns);
    let mut count = 0;
    let mut longest_ns = 0;
    let mut every_ns = from.every_ns;
    for pair in series[start..end].windows(2) {
        let away_ns = pair[1].time_ns - pair[0].time_ns;
        // A mark has no interval of its own, and where one level begins after another, the coarser one counts.
        every_ns = match pair[0].every_ns.max(pair[1].every_ns) {
            0 => every_ns,
            ns => ns,
        };
        let slack_ns = (every_ns / 10).max(1_500_000_000);
        if every_ns > 0 && away_ns > every_ns.saturating_mul(2).saturating_add(slack_ns) {
            count += 1;
            longest_ns = longest_ns.max(away_ns);
        }
    }
    (count > 0).then_some(Gaps { count, longest_ns })
}

/// At most so many: marks, ends and peaks, and the others evenly over the series.
fn chosen(series: &[Moment], rows: usize) -> Vec<&Moment> {
    if rows == 0 || series.len() <= rows {
        return series.iter().collect();
    }
    let always = Triggers::MARK | Triggers::EXIT | Triggers::DEATH | Triggers::PRESSURE;
    let most_live = series.iter().rev().max_by(|a, b| a.live.value.total_cmp(&b.live.value));
    let most_rss = series.iter().rev().max_by_key(|moment| moment.rss);
    let peaks = [most_live, most_rss].map(|moment| moment.map(|moment| moment.time_ns));
    // A few rows are for its ends.
    let is_peak = |time_ns| rows >= LEAST_ROWS_WITH_PEAKS && peaks.contains(&Some(time_ns));
    let is_always = |moment: &Moment| moment.triggers.intersects(always) || is_peak(moment.time_ns);
    let special = series.iter().filter(|moment| is_always(moment)).count().min(rows);
    let mut special_left = special;
    let even = rows - special;
    let mut is_shown = vec![false; series.len()];
    for row in 0..even {
        is_shown[row * (series.len() - 1) / (even - 1).max(1)] = true;
    }
    let shown = series.iter().zip(is_shown).filter(|(moment, is_shown)| {
        let is_special = special_left > 0 && !is_shown && is_always(moment);
        special_left -= usize::from(is_special);
        *is_shown || is_special
    });
    shown.map(|(moment, _)| moment).collect()
}
