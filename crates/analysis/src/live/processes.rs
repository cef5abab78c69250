//! Profiled processes, all of the machine or those that are named: which of them holds the memory, and which grows.

use super::pace::{Pace, thread_cpu_time};
use super::sums::{Moments, Sums};
use super::watch::Watched;
use ramson_format::Kind;
use ramson_process::clock::unix_ns;
use ramson_process::stat::Stat;
use ramson_source::{Discovery, Recording, Selector, all, running};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// New processes are looked for this far apart: every mapping of every process is read for it.
const SEARCH_EVERY: Duration = Duration::from_secs(5);
const SEARCH_SHARE: f64 = 0.02;
/// Each process is read this far apart, and for no more than its part of a share of a core.
const READ_EVERY: Duration = Duration::from_secs(1);
const READ_SHARE: f64 = 0.006;

/// The processes that run.
pub struct Processes {
    /// In the order of the last `sort`.
    pub list: Vec<Process>,
    /// Those of them that had ended at the latest reading.
    pub ended: Vec<Process>,
    /// A line for each profile that could not be read at the last search.
    pub unreadable: Vec<String>,
    /// Whom to look for; none: all.
    wanted: Arc<[Selector]>,
    /// Channel of the search that is under way: the processes that it found, and its CPU time.
    search: Option<Receiver<(Discovery<Recording>, Duration)>>,
    search_pace: Pace,
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
    /// Resident bytes.
    pub rss: Option<u64>,
}

impl Processes {
    /// Those that are named and run now, and from here on those that come; nothing named: all.
    pub fn find(wanted: &[Selector]) -> Self {
        let mut processes = Self {
            list: Vec::new(),
            ended: Vec::new(),
            unreadable: Vec::new(),
            wanted: wanted.into(),
            search: None,
            search_pace: Pace::new(SEARCH_EVERY, SEARCH_SHARE),
            read_pace: Pace::new(READ_EVERY, READ_SHARE),
        };
        let discovery = processes.search_pace.run(|| search(wanted));
        processes.take(discovery);
        processes
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
        self.look_for_others();
        let list = &mut self.list;
        self.read_pace.run(|| list.iter_mut().for_each(Process::read));
        self.ended = list.extract_if(.., |process| process.watched.end.is_some()).collect();
    }

    /// Sorts them, those with equal values by their IDs.
    pub fn sort(&mut self, by: Column) {
        let of = |process: &Process| match by {
            Column::Live => process.moments.total.live.value,
            Column::Change => process.moments.total.change().value,
            Column::Rss => process.rss.unwrap_or(0) as f64,
        };
        self.list.sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.watched.pid.cmp(&b.watched.pid)));
    }

    /// From here on, changes are since now.
    pub fn set_mark(&mut self) {
        self.list.iter_mut().for_each(|process| process.moments.set_mark());
    }

    /// In a thread of its own, as it may take long where there are many.
    fn look_for_others(&mut self) {
        if let Some((found, cost)) = self.search.as_ref().and_then(|it| it.try_recv().ok()) {
            self.search = None;
            self.search_pace.put_off(cost);
            self.take(found);
        }
        if self.search.is_none() && self.search_pace.is_due() {
            let (sender, receiver) = channel();
            let wanted = self.wanted.clone();
            thread::spawn(move || sender.send((search(&wanted), thread_cpu_time())));
            self.search = Some(receiver);
        }
    }

    fn take(&mut self, discovery: Discovery<Recording>) {
        self.unreadable = discovery.unreadable;
        let known: HashSet<u32> = self.list.iter().map(|process| process.watched.pid).collect();
        let found = discovery.found.into_iter();
        let new = found.filter(|recording| !known.contains(&recording.pid()));
        self.list.extend(new.filter_map(Process::of));
    }

    /// Resident bytes and the heaps of all of them.
    pub fn sums(&self) -> (u64, Sums) {
        let rss = self.list.iter().filter_map(|process| process.rss).sum();
        (rss, self.list.iter().map(|process| process.moments.total).sum())
    }

    /// At most so many, as an answer.
    pub fn answer(&self, most_rows: usize) -> LiveProcesses {
        let row = |process: &Process| LiveProcess {
            pid: process.watched.pid,
            name: process.watched.recording.name().to_owned(),
            rss: process.rss,
            since_mark_ns: process.moments.since_mark_ns(),
            rate_window_ns: process.moments.rate_window_ns(),
            total: process.moments.total,
        };
        let processes = self.list.iter().take(most_rows).map(row).collect();
        let unreadable = self.unreadable.clone();
        LiveProcesses { time_unix_ns: unix_ns(), processes, unreadable }
    }
}

fn search(wanted: &[Selector]) -> Discovery<Recording> {
    match wanted.is_empty() {
        true => all(),
        false => Discovery { found: running(wanted), ..Discovery::default() },
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
    fn of(recording: Recording) -> Option<Self> {
        recording.running?;
        let (watched, moments) = (Watched::of(recording), Moments::new(Some(Kind::Heap)));
        Some(Self { watched, moments, rss: None })
    }

    /// Reads it as it is now.
    pub fn read(&mut self) {
        self.watched.read_profile_only();
        self.moments.update(self.watched.snapshot(), self.watched.now_ns());
        self.rss = Stat::of(self.watched.pid).and_then(|stat| stat.rss).or(self.rss);
    }
}
