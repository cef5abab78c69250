//! A profiled process that is looked at again and again: its profile, its RSS, and whether it still runs.

use super::kept::Kept;
use super::pace::{Pace, monotonic_ns};
use crate::coverage::Coverage;
use crate::death;
use crate::failure::Failure;
use crate::mapped;
use crate::own;
use crate::rss::Resident;
use crate::source::Source;
use ramson_reader::{Follower, ReadAt, Snapshot};
use std::fs::{self, File};
use std::time::Duration;

/// The split of RSS is read this far apart, and for this share of a core: the kernel walks the whole page table for it.
const RSS_PAUSE: Duration = Duration::from_secs(1);
const RSS_SHARE: f64 = 0.003;
/// Why the profile does not explain most of the memory: that takes a look at the executable.
const COVERAGE_PAUSE: Duration = Duration::from_secs(30);
const COVERAGE_SHARE: f64 = 0.001;

pub struct Watched {
    /// Its snapshot has the latest header and defects; stacks and samples are in `snapshot`.
    pub source: Source,
    pub pid: u32,
    pub resident: Option<Resident>,
    /// What holds the memory if live heap does not.
    pub coverage: Option<String>,
    /// What became of it, if it does not run any more.
    pub end: Option<String>,
    bytes: Option<Box<dyn ReadAt>>,
    /// As the user called it: its name may go while it is looked at.
    file: Option<File>,
    follower: Follower,
    /// Start of the process in ticks: an ID may be in use again.
    birth: Option<String>,
    rss_pace: Pace,
    kept: Kept,
    coverage_pace: Pace,
}

impl Watched {
    pub fn open(wanted: &str) -> Result<Self, Failure> {
        Ok(Self::of(own::open(wanted)?))
    }

    pub fn of(source: Source) -> Self {
        let (bytes, file) = (source.bytes(), File::open(&source.origin).ok());
        let end = source.running.is_none().then(|| death::state_of(&source));
        let birth = source.running.and_then(birth);
        let rss_pace = Pace::new(RSS_PAUSE, RSS_SHARE);
        let coverage_pace = Pace::new(COVERAGE_PAUSE, COVERAGE_SHARE);
        let (follower, pid) = (Follower::default(), source.pid());
        Self {
            source,
            pid,
            resident: None,
            coverage: None,
            end,
            bytes,
            file,
            follower,
            birth,
            rss_pace,
            kept: Kept::new(),
            coverage_pace,
        }
    }

    pub fn snapshot(&self) -> &Snapshot {
        self.follower.snapshot().unwrap_or(&self.source.snapshot)
    }

    /// On the clock of the profile: now, or the last sample of a process that is dead.
    pub fn now_ns(&self) -> u64 {
        let last_ns = self.source.snapshot.header.last_monotonic_ns;
        if self.end.is_some() { last_ns } else { last_ns.max(monotonic_ns()) }
    }

    /// Reads what there is now. Of a process that has ended, what it left.
    pub fn read(&mut self) {
        self.read_without_split();
        if self.end.is_none() && self.rss_pace.is_due() {
            self.read_rss();
        }
    }

    /// The same without where its RSS is.
    pub fn read_without_split(&mut self) {
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
        match self.follower.read(&**bytes).map(|_| ()) {
            Ok(()) => {
                if let Some(pid) = self.source.running.filter(|_| self.end.is_none()) {
                    mapped::clip_latest(&mut self.follower, pid);
                }
                let Some(snapshot) = self.follower.snapshot() else { return };
                self.source.snapshot = Snapshot {
                    header: snapshot.header.clone(),
                    defects: snapshot.defects.clone(),
                    mappings: Vec::new(),
                    stacks: Vec::new(),
                    live: Vec::new(),
                    extents: Vec::new(),
                    freed: Vec::new(),
                    max_freed: snapshot.max_freed,
                };
            }
            // What is only in the memory of the process has gone with it.
            Err(error) => {
                let error = error.to_string();
                match self.runs() {
                    false => self.finish(),
                    true => self.end = Some(format!("cannot be read any more: {error}")),
                }
            }
        }
    }

    fn read_rss(&mut self) {
        let Some(pid) = self.source.running else { return };
        let (follower, source, file) = (&self.follower, &self.source, &self.file);
        let extents = follower.snapshot().map_or(&[][..], |snapshot| &snapshot.extents);
        let (resident, is_mapped) = self.rss_pace.run(|| {
            (Resident::of(pid, &source.origin, extents), source.is_still_mapped(file.as_ref()))
        });
        if self.runs() && !is_mapped {
            self.end = Some("runs another program now (exec)".into());
        } else if let Some(mut resident) = resident {
            resident.kept_free = self.kept.read(pid, &self.source.origin);
            if self.coverage_pace.is_due() {
                let snapshot = self.follower.snapshot().unwrap_or(&self.source.snapshot);
                let live = mapped::live_heap(snapshot);
                let look = || Coverage::of(pid, &resident, &snapshot.live, live).line();
                self.coverage = self.coverage_pace.run(look);
            }
            self.resident = Some(resident);
        }
    }

    fn runs(&self) -> bool {
        self.birth.is_some() && self.source.running.and_then(birth) == self.birth
    }

    /// The last picture stays, RSS in it included.
    fn finish(&mut self) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(String::new());
        self.read_profile();
        self.source.running = None;
        self.end = Some(death::state_of(&self.source));
    }
}

/// Field 22 of /proc/PID/stat; `None` for a process that is gone, or dead and not waited for.
fn birth(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let is_dead = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !is_dead).map(str::to_owned)
}
