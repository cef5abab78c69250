//! Questions to a history, and the answers, as they also pass between a worker and its asker.

use crate::schema::TERM_COUNT;
use crate::trigger::Triggers;
use crate::writer::Free;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_profile::Estimate;
use ramson_reader::Snapshot;
use std::io::{Read, Result, Write};

/// One process image of which there are snapshots.
#[derive(Clone, Debug, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Process {
    /// In this history.
    pub id: i64,
    /// As it called itself.
    pub pid: u32,
    /// As it was called; then the names of its executable and of its first thread.
    pub name: String,
    /// Path.
    pub exe: String,
    /// Name of its first thread.
    pub comm: String,
    /// When its recording started; nanoseconds since 1970.
    pub start_unix_ns: u64,
}

/// One moment of the series, without its stacks.
#[derive(Clone, Debug, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Moment {
    pub(crate) id: i64,
    pub(crate) chain: i64,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// When the next one was to follow; 0 for one outside of the series, as a mark may be.
    pub every_ns: u64,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Why it was kept.
    #[borsh(serialize_with = "write_triggers", deserialize_with = "read_triggers")]
    pub triggers: Triggers,
    /// Resident bytes, where they could be read.
    pub rss: Option<u64>,
    /// Bytes that the allocator had free, or held if it cannot be read; `None`: not known.
    pub free: Option<Free>,
    /// Bytes of the terms of RSS, in the order of their columns, where they were read.
    pub terms: Option<[i64; TERM_COUNT]>,
    /// Live bytes of the heap.
    pub live: Estimate,
    /// Samples that make it up.
    pub live_samples: u64,
    /// Bytes allocated since the start.
    pub allocated: u64,
}

/// A question. `process` is the number of a process in this history.
#[derive(Clone, BorshSerialize, BorshDeserialize)]
pub enum Question {
    Processes,
    Series { process: i64, from_ns: u64, to_ns: u64 },
    At { process: i64, time_ns: u64 },
    First { process: i64 },
    Peak { process: i64 },
    Mark { process: i64, name: String },
    Marks { process: i64 },
    Snapshot { process: i64, moment: Box<Moment> },
}

/// The answer.
#[derive(BorshSerialize, BorshDeserialize)]
pub enum Answer {
    Processes(Vec<Process>),
    Moments(Vec<Moment>),
    Marks(Vec<(String, u64)>),
    Snapshot(Box<Snapshot>),
}

fn write_triggers(triggers: &Triggers, out: &mut impl Write) -> Result<()> {
    triggers.bits().serialize(out)
}

fn read_triggers(input: &mut impl Read) -> Result<Triggers> {
    u32::deserialize_reader(input).map(Triggers::from_bits_retain)
}
