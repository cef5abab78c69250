//! Facts that every answer gives about its source: the process, where its RSS is, what recording cost, and what the profile lacks.

use crate::attachment;
use crate::coverage::Coverage;
use crate::end::{self, End};
use crate::extents::{self, MmapSums};
use crate::inside::{self, AllocatorInside};
use crate::interval::Intervals;
use crate::members::Sum;
use crate::recording::{self, Cost};
use crate::rss::Rss;
use ramson_format::Health;
use ramson_process::allocators::Allocators;
use ramson_profile::{Estimate, Profile, SampleType};
use ramson_reader::{Counting, Snapshot};
use ramson_source::{Foreign, Opened, Past, Recording};
use serde::Serialize;
use std::collections::BTreeMap;

/// The first attach comes this soon after the profile begins.
const SAME_NS: u64 = 1_000_000_000;

/// The source of an answer.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "there is one of them")]
pub enum Subject {
    /// A profile that libramson wrote.
    Recording(Summary),
    /// Another tool's.
    Foreign(ForeignSummary),
    /// Several.
    Sum(Sum),
}

impl Subject {
    /// Describes a source whose profile, with names, is `profile`, and the RSS of its process.
    pub fn of(opened: &Opened, profile: &Profile, rss: Option<Rss>) -> Self {
        match opened {
            Opened::Recording(recording) => {
                Self::Recording(Summary::of(recording, profile.time_unix_ns, rss))
            }
            Opened::Foreign(foreign) => Self::Foreign(ForeignSummary::of(foreign, profile)),
        }
    }

    /// Live bytes of the heap as programs asked for them; `None`: not known.
    pub fn live_requested(&self) -> Option<Estimate> {
        match self {
            Self::Recording(summary) => Some(summary.live_requested),
            Self::Foreign(foreign) => foreign.live,
            Self::Sum(sum) => Some(sum.live_requested),
        }
    }
}

/// A profile that libramson wrote.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Summary {
    /// As the process is called here while it runs, as it called itself afterwards; 0 for a sum.
    pub pid: u32,
    /// How many ended processes a sum adds up; null if the profile is not a sum.
    pub sum_of: Option<u64>,
    /// The program's.
    pub name: String,
    /// Path of its executable.
    #[serde(skip)]
    pub executable: String,
    /// Its arguments as it began.
    #[serde(skip)]
    pub command: Vec<String>,
    /// The moment of a history that the profile shows.
    pub history: Option<Past>,
    /// The process runs and writes this profile.
    pub is_running: bool,
    /// Go's runtime took all samples: no library is in the process.
    pub is_of_go: bool,
    /// How long ago the collection ended that Go's samples are as of; null: there were not two collections, or the process is not Go's alone.
    pub go_as_of_ago_ns: Option<u64>,
    /// Go's runtime took some of the samples: live bytes are those of malloc and of Go.
    #[serde(skip)]
    pub has_go: bool,
    /// How it ended; `None` while it runs, and where nothing is known.
    pub end: Option<End>,
    /// The same as a sentence.
    #[serde(skip)]
    pub fate: String,
    /// RSS and live bytes as they were last seen, as a phrase.
    #[serde(skip)]
    pub rss_and_live: String,
    /// `None` where there is no process to ask.
    pub rss: Option<Rss>,
    /// Live bytes of the heap, usable ones; after a detach, those of then.
    pub live: Estimate,
    /// The same in requested bytes.
    pub live_requested: Estimate,
    /// Memory that the program mapped itself.
    pub mmap: MmapSums,
    /// How much of the anonymous memory the profile explains; `None` where there is no process to ask.
    pub coverage: Option<Coverage>,
    /// Cost of recording.
    pub recording: Cost,
    /// Allocators inside the executable or a library, whose functions have hooks of their own.
    pub allocators_inside: Vec<AllocatorInside>,
    /// Why there is none; null if there is one.
    pub none_inside: Option<&'static str>,
    /// FORMAT.md's health counters.
    pub health: BTreeMap<&'static str, u64>,
    /// Samples in all and live, as counted.
    #[serde(skip)]
    pub samples: (u64, usize),
    /// Nanoseconds from the first record to the moment that is shown.
    #[serde(skip)]
    pub known_ns: u64,
    /// Nanoseconds of `known_ns` since the latest attach, and only while the process was recorded.
    #[serde(skip)]
    pub profiled_ns: u64,
    /// ramson attached to the process again.
    #[serde(skip)]
    pub is_attached_again: bool,
    /// Sampling of the process, which runs, has ended: how long ago.
    #[serde(skip)]
    pub ended_ago_ns: Option<u64>,
    /// Why there are no samples, where that is the reason: the allocator is linked into the executable, and was not to be recorded.
    pub unseen: Option<String>,
    /// The interval, and the one that was asked for where it is another.
    #[serde(skip)]
    pub interval: String,
}

impl Summary {
    /// Describes a recording as it was at `time_unix_ns`, with the RSS of its process.
    pub fn of(recording: &Recording, time_unix_ns: u64, rss: Option<Rss>) -> Self {
        let snapshot = &recording.snapshot;
        let header = &snapshot.header;
        let live = extents::live_heap(snapshot);
        let known = rss.as_ref().zip(recording.running);
        let coverage = known.and_then(|(rss, pid)| Coverage::of(pid, rss, snapshot));
        let intervals = Intervals::of(recording);
        let known_ns = time_unix_ns.saturating_sub(header.start_realtime_ns);
        let samples = (header.health[Health::Samples as usize], snapshot.live.len());
        let running = recording.running.filter(|_| samples.0 == 0);
        let unseen = running.and_then(|pid| unseen(pid, &recording.snapshot));
        let own_bytes = rss.as_ref().map(|rss| rss.explained.part(ramson_process::Part::Ramson));
        Self {
            pid: recording.pid(),
            sum_of: Some(header.processes).filter(|&count| count > 0),
            name: recording.name().to_owned(),
            executable: header.exe.clone(),
            command: header.command.clone(),
            history: recording.past.as_deref().cloned(),
            is_running: recording.running.is_some(),
            is_of_go: recording.is_of_go(),
            has_go: extents::has_go(snapshot),
            go_as_of_ago_ns: go_as_of_ago_ns(recording),
            end: End::of(recording),
            fate: end::sentence(recording),
            rss_and_live: end::rss_and_live_text(recording, live),
            live,
            live_requested: extents::live_heap_as(snapshot, Counting::Requested),
            mmap: MmapSums::of(snapshot),
            coverage,
            recording: Cost::of(
                recording,
                intervals,
                live.value,
                own_bytes.map(|bytes| bytes.max(0) as u64),
            ),
            allocators_inside: inside::of(snapshot),
            none_inside: inside::none(snapshot),
            health: recording::health(header),
            samples,
            unseen,
            known_ns,
            profiled_ns: attachment::profiled_ns(
                recording,
                header.start_monotonic_ns.saturating_add(known_ns),
            ),
            is_attached_again: header.live_since_ns() > header.start_monotonic_ns + SAME_NS,
            ended_ago_ns: attachment::ended_ago_ns(recording),
            interval: intervals.to_string(),
            rss,
        }
    }
}

fn go_as_of_ago_ns(recording: &Recording) -> Option<u64> {
    let header = &recording.snapshot.header;
    let is_known = header.last_monotonic_ns > header.start_monotonic_ns;
    let ago_ns = recording.read_ns.saturating_sub(header.last_monotonic_ns);
    Some(ago_ns).filter(|_| recording.is_of_go() && is_known)
}

/// Says of a running process that its allocator is linked into the executable, and why it is not recorded, if it is not.
pub(crate) fn unseen(pid: u32, snapshot: &Snapshot) -> Option<String> {
    let areas = ramson_process::read_outline(pid).ok()?;
    let why = inside::obstacle(snapshot, &snapshot.header.exe)?;
    Some(Allocators::of(pid, &areas).inside()?.unseen_because(&why))
}

/// Another tool's profile.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ForeignSummary {
    /// File, address or `standard input`.
    pub origin: String,
    /// Name of the file's format: `pprof`, `heaptrack` …
    pub format: String,
    /// Sample types that the file counts.
    pub sample_types: Vec<SampleType>,
    /// The program's name; empty: not known.
    pub command: String,
    /// Live bytes; `None`: the file does not count them.
    #[serde(skip)]
    pub live: Option<Estimate>,
    /// 0: not known; 1: every allocation.
    #[serde(skip)]
    pub interval_bytes: u64,
    /// Samples, and whether labels tell those of one stack apart.
    #[serde(skip)]
    pub stacks: (usize, bool),
}

impl ForeignSummary {
    fn of(foreign: &Foreign, profile: &Profile) -> Self {
        let counts_live = foreign.imported.sample_types.contains(&SampleType::InuseSpace);
        let is_labelled = profile.samples.iter().any(|sample| !sample.labels.is_empty());
        Self {
            origin: foreign.origin.clone(),
            format: foreign.imported.format.to_string(),
            sample_types: foreign.imported.sample_types.clone(),
            command: profile.command.clone(),
            live: counts_live.then(|| profile.total(SampleType::InuseSpace)),
            interval_bytes: profile.interval_bytes,
            stacks: (profile.samples.len(), is_labelled),
        }
    }
}
