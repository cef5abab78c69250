//! A profiled process that is looked at again and again: its profile, its RSS, and whether it still runs.

use super::pace::Pace;
use crate::coverage::Coverage;
use crate::end;
use crate::rss::Rss;
use ramson_paths::RegularFile;
use ramson_process::Term;
use ramson_process::allocators::Allocators;
use ramson_process::clock::monotonic_ns;
use ramson_process::stat::Stat;
use ramson_profile::Estimate;
use ramson_reader::{Follower, ReadAt, Snapshot};
use ramson_source::{Recording, complete, find_again};
use std::time::{Duration, Instant};

/// The split of RSS is read this far apart, and for this share of a core: the kernel walks the whole page table for it.
const RSS_PAUSE: Duration = Duration::from_secs(1);
const RSS_SHARE: f64 = 0.003;
/// Why the profile does not explain most of the memory: that takes a look at the executable.
const COVERAGE_PAUSE: Duration = Duration::from_secs(30);
const COVERAGE_SHARE: f64 = 0.0005;

/// A process and its latest profile.
pub struct Watched {
    /// Its snapshot has the latest header and defects; stacks and samples are in `snapshot`.
    pub recording: Recording,
    /// Its ID here.
    pub pid: u32,
    /// As it was read last.
    pub rss: Option<Rss>,
    rss_read: Instant,
    /// Its free bytes, until they are taken.
    new_free: Option<f64>,
    /// Resident bytes at the latest reading of the profile.
    pub rss_bytes: Option<u64>,
    /// Line about what holds the memory if live heap does not.
    pub coverage: Option<String>,
    /// How the process ended, or why it cannot be read any more; `None` while it runs.
    pub end: Option<String>,
    bytes: Option<Box<dyn ReadAt>>,
    /// As the user called it: its name may go while it is looked at.
    file: Option<RegularFile>,
    follower: Follower,
    /// Start of the process in ticks: an ID may be in use again.
    start_ticks: Option<u64>,
    rss_pace: Pace,
    /// Found once: they do not change while a program runs.
    allocators: Option<Allocators>,
    coverage_pace: Pace,
}

impl Watched {
    /// Begins to watch the process of a recording.
    pub fn of(recording: Recording) -> Self {
        Self {
            pid: recording.pid(),
            rss: None,
            rss_read: Instant::now(),
            new_free: None,
            rss_bytes: None,
            coverage: None,
            end: recording.running.is_none().then(|| end::state_of(&recording)),
            bytes: recording.bytes(),
            file: recording.file(),
            follower: Follower::default(),
            start_ticks: recording.running.and_then(start_ticks),
            rss_pace: Pace::new(RSS_PAUSE, RSS_SHARE),
            allocators: None,
            coverage_pace: Pace::new(COVERAGE_PAUSE, COVERAGE_SHARE),
            recording,
        }
    }

    /// As it was read last.
    pub fn snapshot(&self) -> &Snapshot {
        self.follower.snapshot().unwrap_or(&self.recording.snapshot)
    }

    /// On the clock of the profile: now, or the last sample of a process that is dead.
    pub fn now_ns(&self) -> u64 {
        let last_ns = self.recording.snapshot.header.last_monotonic_ns;
        if self.end.is_some() { last_ns } else { last_ns.max(monotonic_ns()) }
    }

    /// Reads what else is resident, if it is time: that has a share of a core of its own.
    pub fn read_split(&mut self) {
        if self.end.is_none() && self.rss_pace.is_due() {
            self.read_rss();
        }
    }

    /// Reads profile and resident bytes as they are now. Of a process that has ended, what it left.
    pub fn read(&mut self) {
        self.read_profile_only();
        let stat = self.recording.running.and_then(Stat::of);
        self.rss_bytes = stat.and_then(|stat| stat.rss).or(self.rss_bytes);
    }

    /// The same without the resident bytes.
    pub fn read_profile_only(&mut self) {
        if self.end.is_some() && self.follower.snapshot().is_some() {
            return;
        }
        if self.end.is_none() && !self.runs() {
            self.finish();
        }
        self.read_profile();
    }

    fn read_profile(&mut self) {
        let Some(bytes) = &self.bytes else { return };
        match self.follower.read(&**bytes) {
            Ok(snapshot) => {
                if let Some(pid) = self.recording.running.filter(|_| self.end.is_none()) {
                    complete(snapshot, pid);
                }
                self.recording.read_ns = monotonic_ns();
                self.recording.snapshot = Snapshot {
                    header: snapshot.header.clone(),
                    defects: snapshot.defects.clone(),
                    ..Snapshot::default()
                };
            }
            // A profile that is only in the memory of the process has gone with the process.
            Err(error) => {
                let why = format!("can no longer be read: {error}");
                match self.runs() {
                    true if self.has_moved() => self.read_profile(),
                    true => self.end = Some(why),
                    false => self.finish(),
                }
            }
        }
    }

    /// Whether the recording is elsewhere now, from where it is read from now on.
    fn has_moved(&mut self) -> bool {
        let Some(pid) = self.recording.running else { return false };
        let found = find_again(pid, &self.recording.snapshot.header);
        let Some(found) = found.filter(|found| found.origin != self.recording.origin) else {
            return false;
        };
        self.bytes = found.bytes();
        self.file = found.file();
        self.recording = found;
        self.bytes.is_some()
    }

    fn read_rss(&mut self) {
        let Some(pid) = self.recording.running else { return };
        let (follower, recording, file) = (&self.follower, &self.recording, &self.file);
        let snapshot = follower.snapshot().unwrap_or(&recording.snapshot);
        let allocators = &mut self.allocators;
        let (rss, is_mapped) = self.rss_pace.run(|| {
            let rss = Rss::read(pid, &recording.origin, snapshot, allocators);
            (rss, recording.is_still_mapped(file.as_ref()))
        });
        if !is_mapped && self.runs() && self.has_memory() {
            self.end = Some("runs another program now (exec)".into());
        } else if let Some(rss) = rss {
            if self.coverage_pace.is_due() {
                let snapshot = self.follower.snapshot().unwrap_or(&self.recording.snapshot);
                let coverage = || Coverage::of(pid, &rss, snapshot).line();
                self.coverage = self.coverage_pace.run(coverage);
            }
            self.new_free = Some(free_or_held(&rss).1.value);
            self.rss = Some(rss);
            self.rss_read = Instant::now();
        }
    }

    /// Free bytes in the allocator, if they were read since they were taken last.
    pub fn take_free(&mut self) -> Option<f64> {
        self.new_free.take()
    }

    /// Time since the split of RSS was read.
    pub fn rss_age(&self) -> Duration {
        self.rss_read.elapsed()
    }

    fn runs(&self) -> bool {
        self.start_ticks.is_some()
            && self.recording.running.and_then(start_ticks) == self.start_ticks
    }

    /// False while a process exits: the kernel frees its memory before it reports its end.
    fn has_memory(&self) -> bool {
        let stat = self.recording.running.and_then(Stat::of);
        stat.is_some_and(|stat| stat.rss != Some(0))
    }

    /// The last picture stays, RSS in it included.
    fn finish(&mut self) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(String::new());
        self.read_profile();
        self.recording.running = None;
        self.end = Some(end::state_of(&self.recording));
    }
}

/// Returns the bytes free in the allocator, or held by one whose statistics cannot be read, if they are known.
pub fn free_or_held(rss: &Rss) -> (Term, Estimate) {
    let (free, held) = (rss.term(Term::Free), rss.term(Term::Held));
    if free.value == 0.0 && held.value > 0.0 { (Term::Held, held) } else { (Term::Free, free) }
}

/// `None` for a process that is gone, or dead and not waited for.
fn start_ticks(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.start_ticks)
}
