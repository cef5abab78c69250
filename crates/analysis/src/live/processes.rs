//! Profiled processes, all of the machine or those that are named: which of them holds the memory, and which grows.

use super::sums::{Moments, Sums};
use super::watch::Watched;
use ramson_follow::{Pace, Scope, Search, WATCH_EVERY};
use ramson_format::Kind;
use ramson_process::clock::unix_ns;
use ramson_process::stat::Stat;
use ramson_source::{Recording, Selector};
use serde::Serialize;
use std::collections::HashSet;
use std::time::Duration;

/// Each process is read this far apart, and for no more than its part of a share of a core.
const READ_EVERY: Duration = Duration::from_secs(1);
const READ_SHARE: f64 = 0.006;

/// The processes that run.
pub struct Processes {
    /// In the order of the last `sort`.
    pub list: Vec<Process>,
    /// Those of them that had ended at the latest reading.
    pub ended: Vec<Process>,
    search: Search,
    /// Processes that run and could not be read, and why, until they are found again.
    failures: Vec<(u32, String)>,
    read_pace: Pace,
}

/// The figure that processes are sorted by, the largest first.
#[derive(Clone, Copy, PartialEq)]
pub enum Column {
    /// Live bytes.
    Live,
    /// Growth since the mark.
    Change,
    /// Resident bytes.
    Rss,
}

/// One of them.
pub struct Process {
    /// The process.
    pub watched: Watched,
    /// Sums of its heap.
    pub moments: Moments,
}

impl Processes {
    /// Those that are named and run now, and from here on those that come; nothing named: all.
    pub fn find(wanted: &[Selector]) -> Self {
        let scope = if wanted.is_empty() { Scope::Recorded } else { Scope::Named(wanted.to_vec()) };
        let (search, found) = Search::begin(scope, WATCH_EVERY, unix_ns());
        let read_pace = Pace::new(READ_EVERY, READ_SHARE);
        let mut processes =
            Self { list: Vec::new(), ended: Vec::new(), search, failures: Vec::new(), read_pace };
        processes.take(found);
        processes
    }

    /// Returns a line for each profile that could not be read at the last search or since.
    pub fn unreadable(&self) -> Vec<String> {
        let since = self.failures.iter().map(|(_, failure)| failure);
        self.search.unreadable.iter().chain(since).cloned().collect()
    }

    /// Reads them if it is time; whether it was.
    pub fn read(&mut self) -> bool {
        let is_due = self.read_pace.is_due();
        if is_due {
            self.read_now();
        }
        is_due
    }

    /// Reads them, due or not.
    pub fn read_now(&mut self) {
        let list = &self.list;
        let identity = |process: &Process| process.watched.followed.identity();
        let found = self.search.found(|| list.iter().map(identity).collect());
        self.take(found);
        let list = &mut self.list;
        self.read_pace.run(|| list.iter_mut().for_each(Process::read));
        self.ended = list.extract_if(.., |process| process.watched.end.is_some()).collect();
        self.failures.retain(|(pid, _)| Stat::of(*pid).is_some());
        let failure =
            |Watched { followed, failure, .. }: &Watched| Some((followed.pid, failure.clone()?));
        self.failures.extend(self.ended.iter().filter_map(|it| failure(&it.watched)));
    }

    /// Sorts them, those with equal values by their IDs.
    pub fn sort(&mut self, by: Column) {
        let of = |process: &Process| match by {
            Column::Live => process.moments.total.live.value,
            Column::Change => process.moments.total.change().value,
            Column::Rss => process.watched.rss_bytes.unwrap_or(0) as f64,
        };
        self.list.sort_by(|a, b| {
            of(b).total_cmp(&of(a)).then(a.watched.followed.pid.cmp(&b.watched.followed.pid))
        });
    }

    /// From here on, changes are since now.
    pub fn set_mark(&mut self) {
        self.list.iter_mut().for_each(|process| process.moments.set_mark());
    }

    fn take(&mut self, found: Vec<Recording>) {
        let mut known: HashSet<u32> = self.list.iter().map(|it| it.watched.followed.pid).collect();
        let is_new = |recording: &Recording| recording.running.is_some_and(|pid| known.insert(pid));
        let found: Vec<_> = found.into_iter().filter(is_new).map(Process::of).collect();
        let is_found = |pid| found.iter().any(|process| process.watched.followed.pid == pid);
        self.failures.retain(|&(pid, _)| !is_found(pid));
        self.list.extend(found);
    }

    /// Resident bytes and the heaps of all of them.
    pub fn sums(&self) -> (u64, Sums) {
        let rss = self.list.iter().filter_map(|process| process.watched.rss_bytes).sum();
        (rss, self.list.iter().map(|process| process.moments.total).sum())
    }

    /// At most so many, as an answer.
    pub fn answer(&self, most_rows: usize) -> LiveProcesses {
        let row = |process: &Process| LiveProcess {
            pid: process.watched.followed.pid,
            name: process.watched.followed.recording.name().to_owned(),
            rss: process.watched.rss_bytes,
            since_mark_ns: process.moments.since_mark_ns(),
            rate_window_ns: process.moments.rate_window_ns(),
            total: process.moments.total,
        };
        let processes = self.list.iter().take(most_rows).map(row).collect();
        LiveProcesses { time_unix_ns: unix_ns(), processes, unreadable: self.unreadable() }
    }
}

/// The processes at one moment.
#[derive(Serialize, schemars::JsonSchema)]
pub struct LiveProcesses {
    /// Nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// As they are sorted.
    pub processes: Vec<LiveProcess>,
    /// A line for each profile that could not be read.
    pub unreadable: Vec<String>,
}

/// One process at one moment.
#[derive(Serialize, schemars::JsonSchema)]
pub struct LiveProcess {
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// Resident bytes.
    pub rss: Option<u64>,
    /// Changes are since then.
    pub since_mark_ns: u64,
    /// Rates are of this time; 0: not yet known.
    pub rate_window_ns: u64,
    /// Its heap.
    #[serde(flatten)]
    pub total: Sums,
}

impl Process {
    fn of(recording: Recording) -> Self {
        Self { watched: Watched::of(recording), moments: Moments::new(Some(Kind::Heap)) }
    }

    /// Reads it as it is now.
    pub fn read(&mut self) {
        self.watched.read();
        self.moments.update(self.watched.followed.snapshot(), self.watched.now_ns());
    }
}
