//! Which profiles there are.

use crate::end::{self, Cause, End};
use crate::extents;
use ramson_process::stat;
use ramson_profile::Estimate;
use ramson_source::{Recording, map_all};
use serde::Serialize;

/// The answer.
#[derive(Serialize)]
pub struct Listing {
    /// In the order of their starts.
    pub profiles: Vec<Entry>,
    /// A line for each profile that cannot be read, and for each directory that is not its user's.
    pub unreadable: Vec<String>,
}

/// One profile.
#[derive(Serialize)]
pub struct Entry {
    /// As the process is called here while it runs, as it called itself afterwards.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// `running`, `exited 0`, `SIGKILL`, `replaced`, `died` …
    pub state: String,
    /// The process runs and writes the profile.
    pub is_running: bool,
    /// Why it died.
    #[serde(skip)]
    pub cause: Cause,
    /// Resident bytes now, or as they were last seen.
    pub rss: Option<u64>,
    /// How it ended.
    pub end: Option<End>,
    /// The file, or `memory of process PID`.
    pub profile: String,
    /// Its arguments.
    pub command: Vec<String>,
    /// Nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// In force.
    pub interval_bytes: u64,
    /// Live bytes of the heap.
    pub live: Estimate,
}

/// Every profile of this machine that this user may read.
pub fn list() -> Listing {
    let all = map_all(|_| true, |recording| Entry::of(&recording));
    let unreadable = all.unreadable.into_iter().chain(all.left_out).collect();
    Listing { profiles: all.found, unreadable }
}

impl Entry {
    /// Of one profile.
    pub fn of(recording: &Recording) -> Self {
        let (header, end) = (&recording.snapshot.header, End::of(recording));
        Self {
            pid: recording.pid(),
            name: recording.name().to_owned(),
            state: end::state_of(recording),
            is_running: recording.running.is_some(),
            cause: end::cause_of(recording),
            rss: match recording.running {
                // Of a process that is ending it is 0.
                Some(pid) => Some(stat::rss_and_peak(pid).0).filter(|&bytes| bytes > 0),
                None => end.as_ref().and_then(|end| end.last_rss),
            },
            end,
            profile: recording.origin.clone(),
            command: header.command.clone(),
            start_unix_ns: header.start_realtime_ns,
            interval_bytes: header.interval_bytes,
            live: extents::live_heap(&recording.snapshot),
        }
    }
}
