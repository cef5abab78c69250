//! One process that is watched: its latest moment, what its stacks are called, and what was live before.

use super::row::{Key, Row, Sort, View};
use super::rows::{Material, rows};
use super::shape::{Namer, Shape};
use super::sums::{Moments, Sums};
use super::watch::Watched;
use crate::extents;
use crate::named::thread_name;
use crate::recording::what_is_missing;
use crate::rss::Rss;
use ramson_format::{Health, Kind};
use ramson_process::clock::unix_ns;
use ramson_profile::Pattern;
use ramson_reader::Snapshot;
use ramson_source::Failure;
use serde::Serialize;
use std::collections::{HashMap, HashSet, VecDeque};

/// One point a second, at most these.
const MOST_POINTS: usize = 600;
const POINT_STEP_NS: u64 = 1_000_000_000;

/// Bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// On the clock of the profile.
    pub at_ns: u64,
    /// Live, of the kind that is shown.
    pub live: f64,
    /// Resident.
    pub rss: Option<u64>,
    /// Free in the allocator, or held by one that cannot be read; `None` if that was not read since the last point.
    pub free: Option<f64>,
}

/// The state of a watched process.
#[derive(Default)]
pub struct Picture {
    /// Sums of each stack.
    pub moments: Moments,
    /// Named frames of the stacks.
    pub shape: Shape,
    /// One a second, the latest last.
    pub history: VecDeque<Point>,
    /// How long the process has been profiled.
    pub profiled_ns: u64,
    /// As far as they are known.
    pub thread_names: HashMap<u32, String>,
}

impl Picture {
    /// Creates the picture of one kind of memory, or of both, before its first moment.
    pub fn new(kind: Option<Kind>) -> Self {
        Self { moments: Moments::new(kind), ..Self::default() }
    }

    /// Reads the process, and takes the names that have been found.
    pub fn read(
        &mut self,
        watched: &mut Watched,
        namer: &mut Namer,
        view: View,
    ) -> Result<(), Failure> {
        watched.read();
        let is_new = self.update(watched.followed.snapshot(), watched.now_ns());
        if let Some(point) = self.history.back_mut().filter(|_| is_new) {
            point.rss = watched.rss_bytes;
            point.free = watched.take_free();
        }
        if view == View::Threads {
            self.name_threads(watched.followed.pid);
        }
        namer.ask(&watched.followed.recording, watched.followed.snapshot());
        if let Some(shape) = namer.answer() {
            self.shape = shape?;
        }
        Ok(())
    }

    /// The next snapshot, of `now_ns` on the clock of its times; whether that made a point.
    pub fn update(&mut self, snapshot: &Snapshot, now_ns: u64) -> bool {
        self.moments.update(snapshot, now_ns);
        self.profiled_ns = now_ns.saturating_sub(snapshot.header.start_monotonic_ns);
        let is_due = |last: &Point| now_ns >= last.at_ns + POINT_STEP_NS;
        let is_new = self.history.back().is_none_or(is_due);
        if is_new {
            let live = self.moments.total.live.value;
            self.history.push_back(Point { at_ns: now_ns, live, ..Point::default() });
            if self.history.len() > MOST_POINTS {
                self.history.pop_front();
            }
        }
        is_new
    }

    /// Returns the material that rows are made from.
    pub fn material<'a>(
        &'a self,
        view: View,
        filter: Option<&'a Pattern>,
        opened: &'a HashSet<Key>,
    ) -> Material<'a> {
        let Self { shape, moments, thread_names, .. } = self;
        Material { shape, moments, view, filter, opened, thread_names }
    }

    /// Names the threads that run; those of others are kept.
    fn name_threads(&mut self, pid: u32) {
        let threads: HashSet<u32> = self.moments.pieces().map(|piece| piece.tid).collect();
        for tid in threads {
            if !self.thread_names.contains_key(&tid)
                && let Some(name) = thread_name(pid, tid)
            {
                self.thread_names.insert(tid, name);
            }
        }
    }
}

/// The picture at one moment.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Live {
    /// Nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// It runs.
    pub is_running: bool,
    /// How the process ended, or why it cannot be read any more; null while it runs.
    pub end: Option<String>,
    /// In force.
    pub interval_bytes: u64,
    /// Taken since the start.
    pub samples: u64,
    /// Its resident memory, as it was read last.
    pub rss: Option<Rss>,
    /// How long ago that was.
    pub rss_age_ns: Option<u64>,
    /// Resident bytes at the moment of the rows, by a count that the kernel keeps.
    pub rss_bytes: Option<u64>,
    /// Live bytes of the heap.
    pub live: ramson_profile::Estimate,
    /// Changes are since then.
    pub since_mark_ns: u64,
    /// Rates are of this time; 0: not yet known.
    pub rate_window_ns: u64,
    /// All stacks.
    pub total: Sums,
    /// Kind of the rows: `stacks`, `own`, `cum` or `threads`.
    pub view: &'static str,
    /// The rows.
    pub rows: Vec<Row>,
    /// Defects of the profile.
    pub defects: Vec<String>,
    /// Reasons why frames have no names.
    pub missing_symbols: Vec<String>,
}

impl Live {
    /// Creates the answer for a watched process, with at most `most_rows` rows.
    pub fn of(
        watched: &Watched,
        picture: &Picture,
        view: View,
        sort: Sort,
        most_rows: usize,
    ) -> Self {
        let none = HashSet::new();
        let snapshot = watched.followed.snapshot();
        let (mut rows, _) =
            rows(&picture.material(view, None, &none), sort, false, &HashMap::new());
        rows.truncate(most_rows);
        let missing = picture.shape.missing_symbols.iter();
        Self {
            time_unix_ns: unix_ns(),
            pid: watched.followed.pid,
            name: watched.followed.recording.name().to_owned(),
            is_running: watched.end.is_none(),
            end: watched.end.clone(),
            interval_bytes: snapshot.header.interval_bytes,
            samples: snapshot.header.health[Health::Samples as usize],
            rss: watched.rss.clone(),
            rss_age_ns: watched.rss.as_ref().map(|_| watched.rss_age().as_nanos() as u64),
            rss_bytes: watched.rss_bytes,
            live: extents::live_heap(snapshot),
            since_mark_ns: picture.moments.since_mark_ns(),
            rate_window_ns: picture.moments.rate_window_ns(),
            total: picture.moments.total,
            view: view.name(),
            rows,
            defects: what_is_missing(&watched.followed.recording),
            missing_symbols: missing.map(ToString::to_string).collect(),
        }
    }
}
