//! A profile and the index of its stacks: what a sample is recorded in.

use super::file::{NURSERY_BYTES, ProfileFile};
use super::stacks::{NEAR_PLACES, StackTable};
use crate::config::Config;
use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use ramson_format::{FILE_BYTES_RANGE, Health, PAGE_BYTES, REGION_KINDS, RegionKind, Stack};

/// More than twice as many as there can be stacks in the nursery.
const NURSERY_PLACES: usize = 8192;

/// The part of a nursery's index that is tried first.
pub type NearIndex = [AtomicU32; NEAR_PLACES];

/// Memory of a nursery. All zero is empty.
#[repr(C, align(4096))]
pub struct NurseryMemory {
    /// At the start of a mapping, where readers look.
    profile: UnsafeCell<[u8; NURSERY_BYTES as usize]>,
    index: [AtomicU32; NURSERY_PLACES],
}

// SAFETY: `profile` is used through the atomics of a `ProfileFile` only.
unsafe impl Sync for NurseryMemory {}

/// All zero is "none".
pub struct Profile {
    pub file: ProfileFile,
    pub stacks: StackTable,
}

impl Profile {
    /// In a file, or where none can be made in memory of its own; `room_bytes` at most. `None`: there is no room for it.
    #[cold]
    pub fn create(config: &Config, may_be_file: bool, room_bytes: u64) -> Option<&'static Self> {
        // Nothing is taken where what is left is too little.
        let room_bytes = room_bytes & !(PAGE_BYTES - 1);
        if room_bytes < FILE_BYTES_RANGE.0 {
            return None;
        }
        let memory = sys::map_own(size_of::<Self>()).ok()?;
        // SAFETY: fresh zeroed memory of the right size and alignment (a page); all zero is valid for every field: integers, flags that are
        // false, an empty path. A field for which 0 is not valid would break it.
        let profile = unsafe { &mut *memory.cast::<Self>() };
        if !profile.file.create(config, may_be_file, room_bytes) {
            return None;
        }
        profile.stacks.create(&profile.file)?;
        Some(profile)
    }

    /// Makes zeroed memory of this process a profile. Any number of threads may do so at once, even while others record in it already.
    pub fn begin_in(
        &self,
        memory: &'static NurseryMemory,
        near: &'static NearIndex,
        config: &Config,
        pid: u32,
    ) {
        self.file.begin_in(memory.profile.get() as u64, config, pid);
        let index = (&raw const memory.index) as u64;
        self.stacks.begin_in(&self.file, index, NURSERY_PLACES as u64, near.as_ptr() as u64);
    }

    /// The counters of a stack.
    #[inline]
    pub fn stack(&self, number: u32) -> &Stack {
        self.stacks.entry(&self.file, number)
    }

    /// Returns the bytes that it takes at most if it is in memory.
    pub fn own_bytes(&self) -> u64 {
        let bytes = |kind: RegionKind| self.file.committed(kind) * kind.entry_bytes();
        let regions: u64 = REGION_KINDS.into_iter().map(bytes).sum();
        PAGE_BYTES + regions + self.stacks.index_bytes() as u64
    }

    /// Adds to a health counter.
    #[inline]
    pub fn count(&self, counter: Health, addend: u64) {
        self.file.count(counter, addend);
    }

    /// Stacks that have a number.
    pub fn stack_count(&self) -> u32 {
        let committed = self.file.committed(RegionKind::Stacks) as u32;
        let count = &self.file.header().stack_count;
        count.load(core::sync::atomic::Ordering::Acquire).min(committed)
    }
}
