//! A profile that libramson wrote, read at one moment.

use crate::maps::clip_extents;
use crate::root_note::note_root;
use crate::snapshot_bytes::snapshot_bytes;
use ramson_apart::Owner;
use ramson_format::flags;
use ramson_history::{Free, TERM_COUNT};
use ramson_process::clock::{monotonic_ns, unix_ns};
use ramson_process::identify::{base_name, called_name};
use ramson_process::stat::Stat;
use ramson_process::{processes, text};
use ramson_reader::{End, Header, Snapshot, Way};
use ramson_symbols::CarriedNames;
use serde::Serialize;
use std::sync::Arc;

/// The moment, or the range, of a source that comes from a history.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Past {
    /// Nanoseconds since 1970.
    #[serde(rename = "time_unix_ns")]
    pub time_ns: u64,
    /// Start of a range, since which allocations are counted; null for a single moment. Nanoseconds since 1970.
    #[serde(rename = "from_unix_ns")]
    pub from_ns: Option<u64>,
    /// Resident bytes then.
    #[serde(rename = "rss_bytes")]
    pub rss: Option<u64>,
    /// Free memory of the allocator then.
    #[serde(skip)]
    pub free: Option<Free>,
    /// Bytes of the terms of RSS then.
    #[serde(skip)]
    pub terms: Option<[i64; TERM_COUNT]>,
    /// The process ended then.
    #[serde(skip)]
    pub is_end: bool,
}

/// A profile that was read.
pub struct Recording {
    /// The snapshot that was read.
    pub snapshot: Snapshot,
    /// The process, if it still runs and still writes this profile.
    pub running: Option<u32>,
    /// When it was read, on the clock of the profile's times.
    pub read_ns: u64,
    /// File, or `memory of process PID`.
    pub origin: String,
    /// The user whose file it is, if it was read from one.
    pub owner: Option<Owner>,
    /// Names that `ramson symbolize` has put into the file.
    pub names: Option<Arc<CarriedNames>>,
    /// Which moment it shows, where it comes from a history; its process is not looked at then.
    pub past: Option<Box<Past>>,
}

/// Adds to a profile of running process `pid` what it does not have by itself: what is mapped now, and of a forked child that records in
/// its memory still, who it is.
pub fn complete(snapshot: &mut Snapshot, pid: u32) {
    clip_extents(snapshot, pid);
    let header = &mut snapshot.header;
    if header.flags & flags::PRIVATE == 0 || header.process_start_ticks != 0 {
        return;
    }
    header.process_start_ticks = Stat::of(pid).map_or(0, |stat| stat.start_ticks);
    header.comm = text::read(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
    header.command = processes::command(pid);
}

impl Recording {
    /// As it is now.
    pub(crate) fn of(mut snapshot: Snapshot, running: Option<u32>, origin: String) -> Self {
        let read_ns = monotonic_ns();
        if let Some(pid) = running {
            complete(&mut snapshot, pid);
            note_root(pid, &mut snapshot.header, &origin);
        }
        Self { snapshot, running, read_ns, origin, owner: None, names: None, past: None }
    }

    /// Whether Go's runtime took the samples, and not libramson.
    pub fn is_of_go(&self) -> bool {
        self.snapshot.header.flags & flags::GO != 0
    }

    /// The program's name as it was called (a link may have other names), else of the executable or the first thread.
    pub fn name(&self) -> &str {
        name_of(&self.snapshot.header)
    }

    /// Its process: as it is called here while it runs, as it called itself afterwards.
    pub fn pid(&self) -> u32 {
        self.running.unwrap_or(self.snapshot.header.pid)
    }

    /// The same profile with another snapshot.
    pub fn with(&self, snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            running: self.running,
            read_ns: self.read_ns,
            origin: self.origin.clone(),
            owner: self.owner,
            names: self.names.clone(),
            past: self.past.clone(),
        }
    }

    /// The bytes of a profile file with this moment, and the names that it carries.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = self.snapshot.header.clone();
        let copied = match (&self.past, self.running) {
            (Some(past), _) if !past.is_end => Some((past.time_ns, past.rss)),
            (None, Some(pid)) => {
                if !self.is_of_go() {
                    header.last_monotonic_ns = header.last_monotonic_ns.max(monotonic_ns());
                }
                Some((unix_ns(), Stat::of(pid).and_then(|stat| stat.rss)))
            }
            _ => None,
        };
        header.end = header.end.or(copied.map(|(realtime_ns, rss)| {
            let last_rss_bytes = rss.unwrap_or(0);
            Box::new(End { realtime_ns, last_rss_bytes, ..End::of(Way::Copied) })
        }));
        let mut bytes = snapshot_bytes(&self.snapshot, &header);
        bytes.extend(self.names.iter().flat_map(|names| names.to_block()));
        bytes
    }
}

/// The program's name as it was called, else of the executable or the first thread.
pub fn name_of(header: &Header) -> &str {
    let called = header.command.first().map_or("", |called| called_name(called, &header.exe));
    [called, base_name(&header.exe)]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(&header.comm)
}
