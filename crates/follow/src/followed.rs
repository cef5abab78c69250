//! A process that is followed: whether it runs, the header of its profile, and all of the profile.

use crate::search::Identity;
use ramson_paths::RegularFile;
use ramson_process::clock::monotonic_ns;
use ramson_process::stat::Stat;
use ramson_reader::{Counting, Follower, Header, ReadAt, ReadError, Snapshot};
use ramson_source::{Recording, complete, find_again};

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
            recording,
        }
    }

    /// Whether its profile can be read again.
    pub fn is_readable(&self) -> bool {
        self.bytes.is_some()
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

    /// Whether it still runs the program that was found; exec keeps the process ID.
    pub fn runs_its_program(&self) -> bool {
        self.recording.is_still_mapped(self.file.as_ref())
    }

    /// Reads the header, which is cheap. `None`: the profile is gone.
    pub fn header(&mut self) -> Option<Header> {
        let read = |bytes: &Option<Box<dyn ReadAt>>| Header::read(&**bytes.as_ref()?).ok();
        read(&self.bytes).or_else(|| self.has_moved().then(|| read(&self.bytes))?)
    }

    /// Reads the whole profile, of a process that runs or has ended.
    pub fn read(&mut self, is_running: bool) -> Result<(), ReadError> {
        match self.read_once(is_running) {
            Err(_) if self.has_moved() => self.read_once(is_running),
            read => read,
        }
    }

    fn read_once(&mut self, is_running: bool) -> Result<(), ReadError> {
        let Some(bytes) = &self.bytes else { return Ok(()) };
        let snapshot = self.follower.read(&**bytes)?;
        snapshot.counting = self.counting;
        if is_running {
            complete(snapshot, self.pid);
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
