//! Sampled blocks that were freed of late, with the stacks that allocated and freed them: for the address that a program
//! crashed on.

use crate::frame::Frame;
use crate::named::{Named, assemble_stacks, stack_number};
use crate::naming::Names;
use ramson_profile::format::format_objects;
use ramson_profile::{FrameTable, Profile, StackSample};
use ramson_reader::{Freed, LiveSample};
use ramson_source::{Failure, Recording};
use serde::{Serialize, Serializer};
use std::collections::{BTreeSet, HashMap};

/// The answer.
#[derive(Serialize)]
pub struct Frees {
    /// How many the profile can hold.
    pub max_frees: u64,
    /// What was asked for.
    #[serde(serialize_with = "hexadecimal_or_null")]
    pub address: Option<u64>,
    /// The latest first.
    pub frees: Vec<FreedBlock>,
    /// Live blocks in which the address lies.
    pub live: Vec<LiveBlock>,
    /// When the process began to be recorded; nanoseconds since 1970.
    #[serde(skip)]
    pub start_unix_ns: u64,
    /// Why there is nothing, if there is nothing.
    #[serde(skip)]
    pub nothing: Option<String>,
}

/// A block that was freed.
#[derive(Serialize)]
pub struct FreedBlock {
    /// Of those that were remembered, from 1.
    pub number: u64,
    /// First byte.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Of the address that was asked for.
    pub offset: Option<u64>,
    /// Nanoseconds since 1970.
    pub alloc_unix_ns: u64,
    /// Nanoseconds since 1970.
    pub free_unix_ns: u64,
    /// Thread that allocated it.
    pub alloc_tid: u32,
    /// Thread that freed it.
    pub free_tid: u32,
    /// Leaf first; `None`: not known.
    pub alloc_stack: Option<Vec<Frame>>,
    /// Leaf first; `None`: not known.
    pub free_stack: Option<Vec<Frame>>,
}

/// A block that is live.
#[derive(Serialize)]
pub struct LiveBlock {
    /// First byte.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Of the address that was asked for.
    pub offset: Option<u64>,
    /// Nanoseconds since 1970.
    pub alloc_unix_ns: u64,
    /// Thread that allocated it.
    pub alloc_tid: u32,
    /// Leaf first; `None`: not known.
    pub alloc_stack: Option<Vec<Frame>>,
}

fn hexadecimal<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}

fn hexadecimal_or_null<S: Serializer>(
    address: &Option<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => hexadecimal(address, serializer),
        None => serializer.serialize_none(),
    }
}

/// The blocks; `profile` has their stacks, as `named` made it and filters left it.
pub fn frees(recording: &Recording, profile: &Profile, address: Option<u64>) -> Frees {
    let stacks = Stacks::of(profile);
    let header = &recording.snapshot.header;
    let unix_ns = |ns: u64| {
        header.start_realtime_ns.saturating_add(ns.saturating_sub(header.start_monotonic_ns))
    };
    let offset = |start: u64| address.map(|address| address - start);
    let freed = freed(recording, address).filter(|freed| stacks.has_any_of(freed));
    let freed = freed.map(|freed| FreedBlock {
        number: freed.number,
        address: freed.address,
        size: freed.size,
        offset: offset(freed.address),
        alloc_unix_ns: unix_ns(freed.alloc_monotonic_ns),
        free_unix_ns: unix_ns(freed.free_monotonic_ns),
        alloc_tid: freed.alloc_tid,
        free_tid: freed.free_tid,
        alloc_stack: stacks.frames(Some(freed.alloc_stack)),
        free_stack: stacks.frames(freed.free_stack),
    });
    let live = live(recording, address).filter(|live| stacks.has_any([Some(live.stack), None]));
    let live = live.map(|live| LiveBlock {
        address: live.address,
        size: live.size,
        offset: offset(live.address),
        alloc_unix_ns: unix_ns(live.monotonic_ns),
        alloc_tid: live.tid,
        alloc_stack: stacks.frames(Some(live.stack)),
    });
    let (frees, live): (Vec<_>, Vec<_>) = (freed.collect(), live.collect());
    let is_nothing = frees.is_empty() && live.is_empty();
    Frees {
        max_frees: recording.snapshot.max_freed,
        address,
        frees,
        live,
        start_unix_ns: header.start_realtime_ns,
        nothing: is_nothing.then(|| nothing(recording, address)),
    }
}

/// The stacks of the blocks that will be shown, with their names.
pub fn named(recording: &Recording, names: &Names, address: Option<u64>) -> Result<Named, Failure> {
    let of_freed = freed(recording, address)
        .flat_map(|freed| [Some(freed.alloc_stack), freed.free_stack].into_iter().flatten());
    let of_live = live(recording, address).map(|live| live.stack);
    let stacks: BTreeSet<usize> = of_freed.chain(of_live).collect();
    assemble_stacks(recording, names, &stacks)
}

/// The latest first.
fn freed(recording: &Recording, address: Option<u64>) -> impl Iterator<Item = &Freed> {
    let freed = recording.snapshot.freed.iter();
    freed.filter(move |freed| {
        address.is_none_or(|address| lies_in(address, freed.address, freed.size))
    })
}

/// Live blocks are shown only where an address lies in them.
fn live(recording: &Recording, address: Option<u64>) -> impl Iterator<Item = &LiveSample> {
    let live = recording.snapshot.live.iter();
    live.filter(move |live| {
        address.is_some_and(|address| lies_in(address, live.address, live.size))
    })
}

fn lies_in(address: u64, start: u64, bytes: u64) -> bool {
    address >= start && address - start < bytes.max(1)
}

/// The named stacks of a profile by their numbers.
struct Stacks<'a> {
    frames: FrameTable,
    samples: HashMap<usize, &'a StackSample>,
}

impl<'a> Stacks<'a> {
    fn of(profile: &'a Profile) -> Self {
        let samples = profile.samples.iter();
        let samples = samples.filter_map(|sample| Some((stack_number(sample)?, sample)));
        Self { frames: FrameTable::new(profile), samples: samples.collect() }
    }

    /// Leaf first; `None` where the stack is not known.
    fn frames(&self, stack: Option<usize>) -> Option<Vec<Frame>> {
        let sample = self.samples.get(&stack?)?;
        Some(self.frames.stack(sample).map(|at| Frame::of(&self.frames, at)).collect())
    }

    /// Whether a filter has left anything of a block's stacks.
    fn has_any(&self, stacks: [Option<usize>; 2]) -> bool {
        stacks.into_iter().flatten().any(|stack| self.samples.contains_key(&stack))
    }

    fn has_any_of(&self, freed: &Freed) -> bool {
        self.has_any([Some(freed.alloc_stack), freed.free_stack])
    }
}

fn nothing(recording: &Recording, address: Option<u64>) -> String {
    let snapshot = &recording.snapshot;
    let remembered = snapshot.freed.len();
    if snapshot.max_freed == 0 {
        return "this profile remembers no frees: start the program with \"ramson run --recent-frees 1024\" or RAMSON_FREES=1024".into();
    }
    let Some(address) = address else { return "no sampled block was freed yet".into() };
    let mut text = format!(
        "{address:#x} is in none of the {} sampled blocks that were freed last, and in no live one.",
        format_objects(remembered as f64)
    );
    if snapshot.header.interval_bytes > 1 {
        text += " Most blocks are not sampled: --interval 1 --recent-frees 65536 records every one";
    } else if remembered as u64 >= snapshot.max_freed {
        text += " Older frees are forgotten: a larger --recent-frees remembers more";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_a_block_up_to_its_last_byte() {
        assert!(lies_in(0x1000, 0x1000, 64) && lies_in(0x103f, 0x1000, 64));
        assert!(!lies_in(0xfff, 0x1000, 64) && !lies_in(0x1040, 0x1000, 64));
        // malloc(0) gives an address of its own.
        assert!(lies_in(0x1000, 0x1000, 0) && !lies_in(0x1001, 0x1000, 0));
    }
}
