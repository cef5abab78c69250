//! Extents: the large mappings that the program makes itself. Each is a record of the live table,
//! by its start, with 1/p = 1.
//!
//! An unmapping that begins where an extent does moves its start; one that ends where an extent
//! does shortens it; one that does both removes it. No search by address: of a hole the recorder
//! knows nothing, the reader asks the kernel (format/FORMAT.md, "Extents").

use super::live::Sample;
use super::meter::{Measurement, Path};
use super::profile::Profile;
use super::{Claim, Recorder, count_allocation, count_free};
use crate::arch::Thread;
use crate::page_filter;
use crate::walk::Caller;
use core::ops::Range;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{EXTENT_LEAST_BYTES, Health, Kind, RegionKind, live_flags};

/// Extents may take this share of the live table, so that those whose end was missed leave room for
/// samples.
const SHARE_OF_TABLE: u64 = 4;

const REMEMBERED_ENDS: usize = 1 << 12;

/// Facts about extents in addition to their records. All zero is "none".
pub struct Extents {
    pub(super) count: AtomicU64,
    /// For the end of an extent its start, by a hash without collisions in 4 GiB of neighbours. An
    /// entry that another extent took makes an unmapping up to that end a hole.
    starts: [AtomicU64; REMEMBERED_ENDS],
}

impl Extents {
    fn start_of_the_one_before(&self, end: u64) -> &AtomicU64 {
        &self.starts[(end / EXTENT_LEAST_BYTES) as usize % REMEMBERED_ENDS]
    }
}

/// An extent that one thread holds.
#[derive(Clone, Copy)]
struct Held {
    claim: Claim,
    start: u64,
    sample: Sample,
}

impl Held {
    fn end(&self) -> u64 {
        self.start + self.sample.size
    }
}

/// The extents that begin and end where an unmapping does, held until the kernel has answered.
#[derive(Default)]
pub struct Taken([Option<Held>; 2]);

impl Taken {
    fn all(&self) -> impl Iterator<Item = Held> {
        self.0.into_iter().flatten()
    }

    /// Those of the first one.
    pub fn flags(&self) -> Option<u32> {
        self.all().next().map(|held| held.sample.flags & !live_flags::EXTENT)
    }
}

impl Recorder {
    /// Records a mapping. `flags` as in `LiveSample::flags`.
    pub fn record_extent(&self, thread: &Thread, range: Range<u64>, flags: u32, caller: &Caller) {
        let profile = self.profile();
        let measurement = Measurement::begin(&profile.file, Path::Extent, Health::Extents);
        let now_ns = self.now_ns();
        let sample = Sample {
            size: range.end - range.start,
            inverse_probability: 1.0,
            monotonic_ns: now_ns,
            stack: self.stack_of(profile, thread, Kind::Mmap, caller, now_ns),
            tid: self.tid(thread),
            flags: flags | live_flags::EXTENT,
            // Hazard, never seen: a program makes more than 2³² extents. The wrong one may count of
            // two that overlap and were mapped in the same 4 ms.
            number: measurement.number as u32,
        };
        if flags & live_flags::RESERVED == 0 {
            count_allocation(profile.stack(sample.stack), sample.size, 1.0);
        }
        profile.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        self.add_extent(profile, range.start, &sample);
        measurement.end(&profile.file);
        self.settle(profile, sample.size);
    }

    // Hazard, never seen: a program unmaps a range that reaches over an extent on both sides. The
    // extent stays recorded. While the program runs, the reader leaves out what is not mapped; in
    // the profile of a dead process the extent counts, and the report says so.
    /// Takes out the extents that `range` begins or ends with, before the kernel unmaps it. To be
    /// completed or restored.
    pub fn take(&self, range: &Range<u64>) -> Taken {
        let first = self.hold(range.start, None);
        if first.is_some_and(|held| held.end() >= range.end) {
            return Taken([first, None]);
        }
        let start = self.extents.start_of_the_one_before(range.end).load(Relaxed);
        Taken([first, self.hold(start, Some(range.end))])
    }

    // Hazard, never seen: two threads unmap the two ends of one extent at the same instant. Only one
    // of them gets hold of the extent; the other end stays recorded, as a hole does.
    /// The extent at `start`, if there is one that ends at `end`.
    fn hold(&self, start: u64, end: Option<u64>) -> Option<Held> {
        let claim = self.claim(start)?;
        let held = Held { claim, start, sample: self.sample(self.profile_of(claim), claim) };
        if held.sample.flags & live_flags::EXTENT == 0 || end.is_some_and(|end| held.end() != end) {
            self.restore(claim, start);
            return None;
        }
        Some(held)
    }

    /// All is still there.
    pub fn restore_extents(&self, taken: &Taken) {
        taken.all().for_each(|held| self.restore(held.claim, held.start));
    }

    /// `range` is unmapped.
    pub fn complete_unmapping(&self, taken: &Taken, range: &Range<u64>) {
        for held in taken.all() {
            let Held { claim, start, mut sample } = held;
            let end = held.end();
            let rest =
                if start < range.start { start..range.start } else { end.min(range.end)..end };
            sample.size -= rest.end - rest.start;
            let profile = self.profile_of(claim);
            let stack = profile.stack(sample.stack);
            if sample.flags & live_flags::RESERVED != 0 {
                // It was not counted.
            } else if rest.is_empty() {
                count_free(stack, &sample, self.now_ns().saturating_sub(sample.monotonic_ns));
            } else {
                stack.sampled_freed_bytes.fetch_add(sample.size, Relaxed);
            }
            // The rest first: an end of the process between the two leaves no more than a torn
            // record.
            if !rest.is_empty() {
                let rest_sample = Sample { size: rest.end - rest.start, ..sample };
                self.add_extent(profile, rest.start, &rest_sample);
            }
            self.release(profile, claim);
            page_filter::lower(start);
            self.forget_end(end);
            self.settle(profile, 0);
        }
    }

    /// `range` was just mapped. An extent that began or ended there is mapped over, or was unmapped
    /// unseen if the program did not ask for that.
    pub fn complete_overmapping(&self, range: &Range<u64>, is_asked_for: bool) {
        let taken = self.take(range);
        if !is_asked_for {
            self.profile().count(Health::Healed, taken.all().count() as u64);
        }
        self.complete_unmapping(&taken, range);
    }

    /// Undoes what `add_extent` did in addition to the record, for an extent that is gone.
    pub(super) fn forget_end(&self, end: u64) {
        page_filter::lower(end - 1);
        self.extents.count.fetch_sub(1, Relaxed);
    }

    fn add_extent(&self, profile: &Profile, start: u64, sample: &Sample) {
        let end = start + sample.size;
        for address in [start, end - 1] {
            self.raise_filter(address);
        }
        let most = profile.file.capacity(RegionKind::LiveKeys) / SHARE_OF_TABLE;
        let has_room = self.extents.count.fetch_add(1, Relaxed) < most;
        if has_room && self.insert(profile, start, sample) {
            self.extents.start_of_the_one_before(end).store(start, Relaxed);
        } else {
            page_filter::lower(start);
            self.forget_end(end);
            profile.count(Health::DroppedExtents, 1);
        }
    }
}
