//! Recent frees, where the user asked for them: who freed the latest sampled blocks, and from where.
//!
//! They are a ring in the profile file. A free takes the next number and overwrites the entry of that number modulo the ring's length. The
//! entry's check covers its number and all its fields, so an entry is whole or not there, also where two threads are a whole ring apart
//! and meet in one.
//!
//! Off by default: at 512 KiB one block of 100 bytes in 5,000 is a sample, so the block that a crash is about is almost never in the ring, and each
//! sampled free would pay for a walk.

use super::file::ProfileFile;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{Freed, RegionKind, freed_check};

/// Frees ever remembered. The ring's length is its region's.
pub struct FreeRing {
    pub begun: AtomicU64,
}

/// Contents of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    pub address: u64,
    pub size: u64,
    pub alloc_monotonic_ns: u64,
    pub free_monotonic_ns: u64,
    pub alloc_stack: u32,
    pub free_stack: u32,
    pub alloc_tid: u32,
    pub free_tid: u32,
}

impl FreeRing {
    /// Puts an entry in the place of the oldest. False: there is no ring, or the file system refused the space for it.
    pub fn push(&self, file: &ProfileFile, entry: &Entry) -> bool {
        let number = self.begun.fetch_add(1, Relaxed);
        let Some(slot) = number.checked_rem(file.capacity(RegionKind::RecentFrees)) else {
            return false;
        };
        if !file.grow(RegionKind::RecentFrees, slot + 1) {
            return false;
        }
        let Some(place) = file.entry::<Freed>(RegionKind::RecentFrees, slot) else { return false };
        // 0 is "being written".
        let number = number + 1;
        let stacks = entry.alloc_stack as u64 | (entry.free_stack as u64) << 32;
        let threads = entry.alloc_tid as u64 | (entry.free_tid as u64) << 32;
        let Entry { address, size, alloc_monotonic_ns: begin, free_monotonic_ns: end, .. } = *entry;
        let check = freed_check(&[number, address, size, begin, end, stacks, threads]);
        place.number.store(0, Relaxed);
        place.address.store(address, Relaxed);
        place.size.store(size, Relaxed);
        place.alloc_monotonic_ns.store(begin, Relaxed);
        place.free_monotonic_ns.store(end, Relaxed);
        place.alloc_stack.store(entry.alloc_stack, Relaxed);
        place.free_stack.store(entry.free_stack, Relaxed);
        place.alloc_tid.store(entry.alloc_tid, Relaxed);
        place.free_tid.store(entry.free_tid, Relaxed);
        place.check.store(check, Relaxed);
        place.number.store(number, Release);
        true
    }
}
