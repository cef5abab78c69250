//! The stack table: every distinct stack once, with its counters. Entries are only ever added.
//!
//! An index in private memory leads from a stack's hash to its entry. Two threads that meet the same new stack at once may both
//! add it; the reader makes one of them.

use super::file::ProfileFile;
use crate::sys;
use core::sync::atomic::{self, Ordering::*};
use ramson_format::atomic::{AtomicU32, AtomicU64};
use ramson_format::{BEGUN, COMMITTED, KINDS, Kind, LookupAddress, RegionKind, Stack, stack_hash};

/// Entries of the index that one look-up tries; past them a stack counts as not to be recorded.
const MAX_PROBES: u64 = 64;
/// Places of the near part, and how many of them one look-up tries first.
pub const NEAR_PLACES: usize = 256;
const NEAR_PROBES: u64 = 4;

/// Who a stack is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Allocation,
    /// Adds no stack once the table is half full: frees must not keep allocations from having theirs.
    Free,
}

/// All zero is "none".
pub struct StackTable {
    /// Address of `AtomicU32`s: 0 or an entry's number.
    index: AtomicU64,
    mask: atomic::AtomicU64,
    /// Address of a nursery's near part of the index, on a page that is in use anyway; 0 elsewhere. It has the few stacks of a short process.
    near: AtomicU64,
}

impl StackTable {
    /// Maps the index: twice as many places as there can be stacks.
    pub fn create(&self, file: &ProfileFile) -> Option<()> {
        let places = (file.capacity(RegionKind::Stacks) * 2).next_power_of_two();
        let index = sys::map_own(places as usize * size_of::<AtomicU32>()).ok()?;
        self.begin_in(file, index as u64, places, 0);
        Some(())
    }

    /// The same with `places`, a power of two, in zeroed memory at `index` and `near`, by any number of threads at once.
    pub fn begin_in(&self, file: &ProfileFile, index: u64, places: u64, near: u64) {
        self.mask.store(places - 1, Relaxed);
        self.near.store(near, Relaxed);
        self.index.store(index, Release);
        for kind in KINDS {
            self.entry(file, kind.overflow_stack()).flags.store(kind.stack_flags(), Relaxed);
        }
    }

    pub fn index_bytes(&self) -> usize {
        (self.mask.load(Relaxed) as usize + 1) * size_of::<AtomicU32>()
    }

    /// The counters of a stack. Every number that `intern` returned has an entry, and the overflow stacks always have.
    #[inline]
    pub fn entry<'a>(&self, file: &'a ProfileFile, stack: u32) -> &'a Stack {
        static NOWHERE: Stack = EMPTY_STACK;
        // If somebody else's store damaged a live sample's stack number, the overflow stack takes the sample.
        let entry = |stack: u32| file.entry(RegionKind::Stacks, stack as u64);
        entry(stack).or_else(|| entry(0)).unwrap_or(&NOWHERE)
    }

    /// The number of the stack with these frames. `None`: a bound was hit.
    #[inline]
    pub fn intern(
        &self,
        file: &ProfileFile,
        epoch: u32,
        frames: impl ExactSizeIterator<Item = LookupAddress> + Clone,
        flags: u32,
        holder: Holder,
        now_ns: u64,
    ) -> Option<u32> {
        let kind = Kind::of_stack(flags);
        let hash = stack_hash(kind, epoch, frames.clone());
        let mut added = None;
        for probe in 0..MAX_PROBES {
            let place = self.place(hash, probe);
            let mut number = place.load(Acquire);
            if number == 0 {
                let own = match added {
                    Some(own) => own,
                    None if holder == Holder::Free && is_half_full(file) => return None,
                    None => self.add(file, epoch, hash, frames.clone(), flags, now_ns)?,
                };
                match place.compare_exchange(0, own, Release, Acquire) {
                    Ok(_) => return Some(own),
                    Err(other) => {
                        added = Some(own);
                        number = other;
                    }
                }
            }
            if is_stack(file, number, kind, hash, epoch, frames.clone()) {
                return Some(number);
            }
        }
        // Unindexed, but counted; the reader merges it with its equals.
        added
    }

    /// Returns the place that a look-up tries next.
    #[inline]
    fn place(&self, hash: u64, probe: u64) -> &AtomicU32 {
        let near = self.near.load(Relaxed);
        let (first, mask) = if near != 0 && probe < NEAR_PROBES {
            (near, NEAR_PLACES as u64 - 1)
        } else {
            (self.index.load(Relaxed), self.mask.load(Relaxed))
        };
        // SAFETY: the index is masked to the places that there are.
        unsafe { &*((first + (hash.wrapping_add(probe) & mask) * 4) as *const AtomicU32) }
    }

    #[cold]
    fn add(
        &self,
        file: &ProfileFile,
        epoch: u32,
        hash: u64,
        frames: impl ExactSizeIterator<Item = LookupAddress>,
        flags: u32,
        now_ns: u64,
    ) -> Option<u32> {
        let depth = frames.len() as u64;
        let header = file.header();
        let first_frame = file.reserve(RegionKind::Frames, &header.frame_count, depth)?;
        let number = file.reserve(RegionKind::Stacks, &header.stack_count, 1)?;
        let entry: &Stack = file.entry(RegionKind::Stacks, number)?;
        entry.commit.store(BEGUN, Relaxed);
        for (index, frame) in (first_frame..).zip(frames) {
            file.entry::<AtomicU64>(RegionKind::Frames, index)?.store(frame.0, Relaxed);
        }
        entry.depth.store(depth as u32, Relaxed);
        entry.hash.store(hash, Relaxed);
        entry.first_frame.store(first_frame, Relaxed);
        entry.epoch.store(epoch, Relaxed);
        entry.flags.store(flags, Relaxed);
        entry.first_monotonic_ns.store(now_ns, Relaxed);
        entry.commit.store(COMMITTED, Release);
        Some(number as u32)
    }
}

/// A stack without any samples.
#[expect(clippy::declare_interior_mutable_const, reason = "a value for statics to start with")]
// SAFETY: integers.
pub const EMPTY_STACK: Stack = unsafe { core::mem::zeroed() };

#[cold]
fn is_half_full(file: &ProfileFile) -> bool {
    let header = file.header();
    let stacks = header.stack_count.load(Relaxed) as u64;
    stacks >= file.capacity(RegionKind::Stacks) / 2
        || header.frame_count.load(Relaxed) >= file.capacity(RegionKind::Frames) / 2
}

#[inline]
fn is_stack(
    file: &ProfileFile,
    number: u32,
    kind: Kind,
    hash: u64,
    epoch: u32,
    frames: impl ExactSizeIterator<Item = LookupAddress>,
) -> bool {
    let Some(entry) = file.entry::<Stack>(RegionKind::Stacks, number as u64) else { return false };
    if entry.hash.load(Relaxed) != hash
        || Kind::of_stack(entry.flags.load(Relaxed)) != kind
        || entry.depth.load(Relaxed) as usize != frames.len()
        || entry.epoch.load(Relaxed) != epoch
    {
        return false;
    }
    let first = entry.first_frame.load(Relaxed);
    let known: Option<&[AtomicU64]> = file.slice(RegionKind::Frames, first, frames.len());
    known.is_some_and(|known| {
        known.iter().zip(frames).all(|(known, frame)| known.load(Relaxed) == frame.0)
    })
}
