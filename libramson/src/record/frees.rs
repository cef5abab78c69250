//! Recent frees: who freed the latest sampled blocks, and from where, in a ring in the profile file.
//!
//! A free takes the next number and overwrites the entry of that number modulo the ring's length. The entry's check covers its
//! number and all its fields, so an entry is whole or not there, also where two threads are a whole ring apart and meet in one.
//!
//! The stack of a free costs as much as that of a sample. So unless somebody asked for frees, each thread has a pace: what a storm of
//! samples frees beyond it is counted, and the ring reaches further back for it.

use super::file::ProfileFile;
use super::live::{Claim, Sample};
use super::stacks::Holder;
use super::{Measurement, Recorder};
use crate::arch::Thread;
use crate::walk::Caller;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{Freed, Health, Kind, NO_STACK, RegionKind, freed_check};

/// Of one thread's remembered frees, where nobody asked for all: 1,000 a second, at most 0.1 % of a CPU at 1 µs each …
pub const PACE_NS: u64 = 1_000_000;
/// … and this many at once, after a while without any.
pub const MOST_AT_ONCE: u64 = 128;

/// All zero is "off".
pub struct FreeRing {
    length: u64,
    /// Time between two frees of a thread; 0: all are remembered.
    pace_ns: u64,
    begun: AtomicU64,
}

/// What an entry says.
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
    pub fn create(&mut self, file: &ProfileFile, remembers_all: bool) {
        self.length = file.capacity(RegionKind::RecentFrees);
        self.pace_ns = if remembers_all { 0 } else { PACE_NS };
    }

    #[cfg(test)]
    pub fn with_length(length: u64) -> Self {
        Self { length, pace_ns: 0, begun: AtomicU64::new(0) }
    }

    /// Whether the thread may remember a free now; if so, it has.
    pub fn is_due(&self, thread: &Thread, now_ns: u64) -> bool {
        if self.pace_ns == 0 {
            return true;
        }
        let earliest_ns = now_ns.saturating_sub(self.pace_ns * MOST_AT_ONCE);
        let paid_ns = thread.frees_paid_ns.get().max(earliest_ns) + self.pace_ns;
        let is_due = paid_ns <= now_ns;
        if is_due {
            thread.frees_paid_ns.set(paid_ns);
        }
        is_due
    }

    /// Puts an entry in the place of the oldest. False: the file system refused the space for it.
    pub fn push(&self, file: &ProfileFile, entry: &Entry) -> bool {
        let number = self.begun.fetch_add(1, Relaxed);
        let Some(slot) = number.checked_rem(self.length) else { return false };
        if !file.grow(RegionKind::RecentFrees, slot + 1) {
            return false;
        }
        let Some(place) = file.entry::<Freed>(RegionKind::RecentFrees, slot) else { return false };
        // 0 is "being written".
        let number = number + 1;
        let stacks = entry.alloc_stack as u64 | (entry.free_stack as u64) << 32;
        let threads = entry.alloc_tid as u64 | (entry.free_tid as u64) << 32;
        let Entry { address, size, alloc_monotonic_ns, free_monotonic_ns, .. } = *entry;
        let check = freed_check(&[
            number,
            address,
            size,
            alloc_monotonic_ns,
            free_monotonic_ns,
            stacks,
            threads,
        ]);
        place.number.store(0, Relaxed);
        place.address.store(address, Relaxed);
        place.size.store(size, Relaxed);
        place.alloc_monotonic_ns.store(alloc_monotonic_ns, Relaxed);
        place.free_monotonic_ns.store(free_monotonic_ns, Relaxed);
        place.alloc_stack.store(entry.alloc_stack, Relaxed);
        place.free_stack.store(entry.free_stack, Relaxed);
        place.alloc_tid.store(entry.alloc_tid, Relaxed);
        place.free_tid.store(entry.free_tid, Relaxed);
        place.check.store(check, Relaxed);
        place.number.store(number, Release);
        true
    }
}

impl Recorder {
    /// The claimed sample is freed by `caller`; `None` if that cannot be walked from here.
    pub fn complete_free(
        &self,
        thread: &Thread,
        claim: Claim,
        address: u64,
        caller: Option<Caller>,
    ) {
        let measurement = Measurement::begin(self.file.count_one(Health::Frees));
        let (sample, now_ns) = self.take_out(claim, address);
        if self.frees.length != 0 {
            if self.frees.is_due(thread, now_ns) {
                self.remember(thread, address, &sample, now_ns, caller);
            } else {
                self.file.count(Health::PassedFrees, 1);
            }
        }
        measurement.end(&self.file, 0);
    }

    fn remember(
        &self,
        thread: &Thread,
        address: u64,
        sample: &Sample,
        free_monotonic_ns: u64,
        caller: Option<Caller>,
    ) {
        if thread.tid.get() == 0 {
            thread.tid.set(self.thread_id());
        }
        // Last: a signal handler may leave a walk for good, and the sample is out of the table by then.
        let free_stack =
            caller.and_then(|caller| self.free_stack_of(thread, caller, free_monotonic_ns));
        self.file.count(Health::UnknownFreeStacks, free_stack.is_none() as u64);
        let entry = Entry {
            address,
            size: sample.size,
            alloc_monotonic_ns: sample.monotonic_ns,
            free_monotonic_ns,
            alloc_stack: sample.stack,
            free_stack: free_stack.unwrap_or(NO_STACK),
            alloc_tid: sample.tid,
            free_tid: thread.tid.get(),
        };
        let is_kept = self.frees.push(&self.file, &entry);
        self.file.count(Health::DroppedFrees, !is_kept as u64);
    }

    fn free_stack_of(&self, thread: &Thread, caller: Caller, now_ns: u64) -> Option<u32> {
        let flags = Kind::Heap.stack_flags();
        self.walk(thread, caller, flags, Holder::Free, now_ns)?.stack
    }
}
