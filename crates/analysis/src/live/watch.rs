//! A profiled process that is looked at again and again: its profile, its RSS, and whether it still runs.

use crate::coverage::Coverage;
use crate::end;
use crate::rss::Rss;
use ramson_follow::{Followed, Pace};
use ramson_process::Term;
use ramson_process::allocators::Allocators;
use ramson_process::clock::monotonic_ns;
use ramson_profile::Estimate;
use ramson_reader::Counting;
use ramson_source::Recording;
use std::time::{Duration, Instant};

/// The split of RSS is read this far apart, and for this share of a core: the kernel walks the whole page table for it.
const RSS_PAUSE: Duration = Duration::from_secs(1);
const RSS_SHARE: f64 = 0.003;
/// Why the profile does not explain most of the memory: that takes a look at the executable.
const COVERAGE_PAUSE: Duration = Duration::from_secs(30);
const COVERAGE_SHARE: f64 = 0.0005;

/// A process, its latest profile and the split of its RSS.
pub struct Watched {
    /// The process and its profile.
    pub followed: Followed,
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
    /// A line that says why it cannot be read, while it runs.
    pub failure: Option<String>,
    rss_pace: Pace,
    /// Found once: they do not change while a program runs.
    allocators: Option<Allocators>,
    coverage_pace: Pace,
}

impl Watched {
    /// Begins to watch the process of a recording.
    pub fn of(recording: Recording) -> Self {
        Self {
            rss: None,
            rss_read: Instant::now(),
            new_free: None,
            rss_bytes: None,
            coverage: None,
            end: recording.running.is_none().then(|| end::state_of(&recording)),
            failure: None,
            rss_pace: Pace::new(RSS_PAUSE, RSS_SHARE),
            allocators: None,
            coverage_pace: Pace::new(COVERAGE_PAUSE, COVERAGE_SHARE),
            followed: Followed::of(recording),
        }
    }

    /// On the clock of the profile: now, or the last sample of a process that is dead.
    pub fn now_ns(&self) -> u64 {
        let last_ns = self.followed.recording.snapshot.header.last_monotonic_ns;
        // Go's own samples end at the moment that they are as of.
        let is_over = self.end.is_some() || self.followed.recording.is_of_go();
        if is_over { last_ns } else { last_ns.max(monotonic_ns()) }
    }

    /// Reads what else is resident, if it is time: that has a share of a core of its own.
    pub fn read_split(&mut self) {
        if self.end.is_none() && self.rss_pace.is_due() {
            self.read_rss();
        }
    }

    /// Reads profile and resident bytes as they are now. If the process has ended, reads what the process left.
    pub fn read(&mut self) {
        let stat = self.followed.stat();
        self.rss_bytes = stat.and_then(|stat| stat.rss).or(self.rss_bytes);
        if self.end.is_some() {
            if self.followed.follower.snapshot().is_none() {
                // The recording that it began with stays.
                let _ = self.followed.read(false);
            }
        } else if stat.is_none() {
            self.finish();
        } else if let Err(error) = self.followed.read(true) {
            // A profile that is only in the memory of the process has gone with the process.
            if self.followed.stat().is_some() {
                self.end = Some(format!("can no longer be read: {error}"));
                self.failure = Some(format!("{}: {error}", self.followed.recording.origin));
            } else {
                self.finish();
            }
        }
    }

    fn read_rss(&mut self) {
        let Self { followed, allocators, .. } = self;
        let pid = followed.pid;
        let (rss, runs_its_program) = self.rss_pace.run_for(pid, 1, || {
            let rss = Rss::read(pid, &followed.recording.origin, followed.snapshot(), allocators);
            (rss, followed.runs_its_program())
        });
        // The kernel frees the memory of a process before it reports its end.
        let has_memory = || followed.stat().is_some_and(|stat| stat.rss != Some(0));
        if !runs_its_program && has_memory() {
            self.end = Some("runs another program now (exec)".into());
        } else if let Some(rss) = rss {
            if self.coverage_pace.is_due() {
                let coverage = || Coverage::of(pid, &rss, followed.snapshot())?.line();
                self.coverage = self.coverage_pace.run_for(pid, 1, coverage);
            }
            followed.count(rss.counting);
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

    /// The last picture stays, RSS in it included.
    fn finish(&mut self) {
        // No total is known of what was live at the end.
        self.followed.count(Counting::default());
        // A profile that is gone leaves the last picture.
        let _ = self.followed.read(false);
        self.followed.recording.running = None;
        self.end = Some(end::state_of(&self.followed.recording));
    }
}

/// Returns the bytes free in the allocator, or held by one whose statistics cannot be read, if they are known. Go's count before malloc's.
pub fn free_or_held(rss: &Rss) -> (Term, Estimate) {
    let known = [Term::GoFree, Term::Free, Term::Held].map(|term| (term, rss.term(term)));
    let free = known.into_iter().find(|(_, bytes)| bytes.value > 0.0);
    free.unwrap_or((Term::Free, rss.term(Term::Free)))
}
