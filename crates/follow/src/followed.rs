//! A process that is followed: whether it runs, the header of its profile, and all of the profile.

use crate::pace::Pace;
use crate::search::Identity;
use ramson_paths::RegularFile;
use ramson_process::clock::monotonic_ns;
use ramson_process::stat::Stat;
use ramson_reader::{Counting, Follower, Header, ReadAt, ReadError, Snapshot};
use ramson_source::{Failure, Recording, complete, find_again, go};
use std::io;
use std::time::Duration;

/// Go's own samples are read this far apart where a header would do, and for this share of a core.
const GO_EVERY: Duration = Duration::from_secs(5);
const GO_SHARE: f64 = 0.001;
/// A reading of them is as good as new for so long.
const GO_IS_NEW: Duration = Duration::from_millis(500);

/// A process and its profile, as both were read last.
pub struct Followed {
    /// Its snapshot has the latest header and defects; stacks and samples are in `snapshot`.
    pub recording: Recording,
    /// Its ID here.
    pub pid: u32,
    /// Holds the latest whole reading. May be taken away and given back: a reading goes on from the one before.
    pub follower: Follower,
    /// How live bytes are counted until that is changed.
    counting: Counting,
    /// `None`: its profile cannot be read again.
    bytes: Option<Box<dyn ReadAt>>,
    /// The file that was opened under the profile's name: the name may go while the process is followed.
    file: Option<RegularFile>,
    /// The process as it was first seen; `None`: it had ended by then.
    first: Option<Stat>,
    /// When Go's own samples may be read instead of a header.
    go_pace: Pace,
}

impl Followed {
    /// Begins to follow the process of a recording.
    pub fn of(recording: Recording) -> Self {
        Self {
            pid: recording.pid(),
            follower: Follower::default(),
            counting: Counting::default(),
            bytes: recording.bytes(),
            file: recording.file(),
            first: recording.running.and_then(Stat::of),
            go_pace: Pace::new(GO_EVERY, GO_SHARE),
            recording,
        }
    }

    /// Whether its profile can be read again.
    pub fn is_readable(&self) -> bool {
        self.bytes.is_some() || self.recording.is_of_go()
    }

    /// Returns the identity of its profile.
    pub fn identity(&self) -> Identity {
        self.recording.snapshot.header.identity()
    }

    /// Returns the latest whole reading.
    pub fn snapshot(&self) -> &Snapshot {
        self.follower.snapshot().unwrap_or(&self.recording.snapshot)
    }

    /// From here on live bytes are counted in this way, those of the latest reading, too.
    pub fn count(&mut self, counting: Counting) {
        self.counting = counting;
        if let Some(snapshot) = self.follower.snapshot_mut() {
            snapshot.counting = counting;
        }
    }

    /// Returns the process as it was first seen, unless it had ended by then.
    pub fn first(&self) -> Option<Stat> {
        self.first
    }

    /// Returns the process as it is now; `None` once it has ended, also if it is not waited for yet or if its ID is another's.
    pub fn stat(&self) -> Option<Stat> {
        let first = self.first?;
        Stat::of(self.pid).filter(|now| now.start_ticks == first.start_ticks)
    }

    /// Goes on from what was known of a Go program's samples when another ramson looked.
    pub fn go_on_from(&mut self, earlier: go::Earlier) {
        go::go_on_from(self.pid, earlier);
        self.follower = Follower::default();
    }

    /// Whether it still runs the program that was found; exec keeps the process ID.
    pub fn runs_its_program(&self) -> bool {
        self.recording.is_still_mapped(self.file.as_ref())
    }

    /// Reads the header, which is cheap. `None`: the profile is gone.
    pub fn header(&mut self) -> Option<Header> {
        if self.recording.is_of_go() {
            if self.go_pace.is_due() {
                self.read_go().ok()?;
            }
            return Some(self.recording.snapshot.header.clone());
        }
        let read = |bytes: &Option<Box<dyn ReadAt>>| Header::read(&**bytes.as_ref()?).ok();
        read(&self.bytes).or_else(|| self.has_moved().then(|| read(&self.bytes))?)
    }

    /// Reads the whole profile, of a process that runs or has ended.
    pub fn read(&mut self, is_running: bool) -> Result<(), ReadError> {
        if self.recording.is_of_go() {
            let age_ns = monotonic_ns().saturating_sub(self.recording.read_ns);
            let is_new = !is_running || age_ns < GO_IS_NEW.as_nanos() as u64;
            let is_read = is_new && self.follower.snapshot().is_some();
            return if is_read { Ok(()) } else { self.read_go() };
        }
        match self.read_once(is_running) {
            Err(_) if self.has_moved() => self.read_once(is_running),
            read => read,
        }
    }

    fn read_go(&mut self) -> Result<(), ReadError> {
        let Self { go_pace, pid, .. } = self;
        let gone = || Failure::not_found(format!("process {pid}: it has ended"));
        let read = go_pace.run_for(*pid, 1, || go::recording(*pid));
        let read = read.ok_or_else(gone).flatten();
        let read = read.map_err(|failure| ReadError::Io(io::Error::other(failure.to_string())))?;
        self.recording = Recording { snapshot: outline(&read.snapshot), ..read };
        self.follower.take(read.snapshot).counting = self.counting;
        Ok(())
    }

    fn read_once(&mut self, is_running: bool) -> Result<(), ReadError> {
        let Some(bytes) = &self.bytes else { return Ok(()) };
        let snapshot = self.follower.read(&**bytes)?;
        snapshot.counting = self.counting;
        if is_running {
            complete(snapshot, self.pid);
            go::add(snapshot, self.pid);
        }
        self.recording.snapshot = outline(snapshot);
        self.recording.read_ns = monotonic_ns();
        Ok(())
    }

    /// Whether a running process has moved its profile, which is read from its new place from now on: a forked child moves it from
    /// memory to a file.
    fn has_moved(&mut self) -> bool {
        if self.stat().is_none() {
            return false;
        }
        let found = find_again(self.pid, &self.recording.snapshot.header);
        let Some(found) = found.filter(|found| found.origin != self.recording.origin) else {
            return false;
        };
        self.bytes = found.bytes();
        self.file = found.file();
        let snapshot = outline(&found.snapshot);
        self.recording = Recording { snapshot, ..found };
        self.bytes.is_some()
    }
}

/// Copies what is small.
fn outline(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        header: snapshot.header.clone(),
        defects: snapshot.defects.clone(),
        ..Snapshot::default()
    }
}
