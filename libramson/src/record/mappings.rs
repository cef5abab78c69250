//! What the program maps and unmaps itself, as the recorder sees it.

use super::cost::Measurement;
use super::extents::{Cut, Facts};
use super::{Recorder, add_float, count_allocation};
use crate::arch::Thread;
use crate::sys;
use crate::walk::Caller;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::Ordering::*;
use ramson_format::{EXTENT_MAX_PAGES, Health, Kind, PAGE_BYTES, extent_flags, lifetime_bucket};

/// Ranges that one call can put back if it fails; further ones count as unmapped at once. They lie on the program's stack.
const MAX_CUTS: usize = 6;

/// What one call of the program takes out of the table until the kernel has answered.
pub struct Taken {
    cuts: [MaybeUninit<Cut>; MAX_CUTS],
    count: usize,
}

impl Taken {
    pub fn new() -> Self {
        Self { cuts: [MaybeUninit::uninit(); MAX_CUTS], count: 0 }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// What was taken after the first `skipped`.
    pub fn cuts(&self, skipped: usize) -> &[Cut] {
        let cuts = self.cuts.get(skipped..self.count).unwrap_or_default();
        // SAFETY: those below `count` were written by `push`; MaybeUninit<T> is laid out as T.
        unsafe { core::slice::from_raw_parts(cuts.as_ptr().cast(), cuts.len()) }
    }

    /// False: there is no room.
    fn push(&mut self, cut: &Cut) -> bool {
        let place = self.cuts.get_mut(self.count);
        self.count += place.is_some() as usize;
        place.map(|place| place.write(*cut)).is_some()
    }
}

impl Recorder {
    /// Whether there is no extent to be found.
    #[inline]
    pub fn has_no_extents(&self) -> bool {
        self.extents.is_empty()
    }

    /// Records a mapping that is a sample, or large. `flags` as in `Extent::flags`.
    pub fn record_mapping(
        &self,
        thread: &Thread,
        range: Range<u64>,
        inverse_probability: f64,
        flags: u32,
        caller: Caller,
    ) {
        let measurement = Measurement::begin(self.file.count_one(Health::Extents));
        let now_ns = self.now_ns();
        if thread.tid.get() == 0 {
            thread.tid.set(sys::thread_id());
        }
        let stack = self.stack_of(thread, Kind::Mmap, caller, now_ns);
        let bytes = range.end - range.start;
        if flags & extent_flags::RESERVED == 0 {
            count_allocation(self.stacks.entry(&self.file, stack), bytes, inverse_probability);
        }
        self.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        self.add_extents(
            range.start,
            bytes,
            Facts {
                inverse_probability,
                monotonic_ns: now_ns,
                stack,
                tid: thread.tid.get(),
                flags,
            },
        );
        measurement.end(&self.file, 0);
        self.govern(now_ns);
    }

    /// One extent, or several where the range is too long for one.
    fn add_extents(&self, start: u64, bytes: u64, facts: Facts) {
        const MOST: u64 = EXTENT_MAX_PAGES / 2 * PAGE_BYTES;
        for offset in (0..bytes).step_by(MOST as usize) {
            let part_bytes = MOST.min(bytes - offset);
            if !self.extents.insert(&self.file, start + offset, part_bytes, &facts) {
                self.file.count(Health::DroppedExtents, 1);
            }
        }
    }

    /// Takes `range` out, before the kernel does it. To be completed or restored.
    pub fn take(&self, range: Range<u64>, taken: &mut Taken) {
        let lost = self.extents.cut(&self.file, range, |cut| {
            if !taken.push(&cut) {
                self.count_unmapping(&cut);
            }
        });
        self.file.count(Health::DroppedExtents, lost);
    }

    /// These ranges are unmapped.
    pub fn complete_all(&self, cuts: &[Cut]) {
        cuts.iter().for_each(|cut| self.count_unmapping(cut));
    }

    /// These are still there.
    pub fn restore_all(&self, cuts: &[Cut]) {
        cuts.iter().for_each(|cut| self.add_extents(cut.start, cut.bytes, cut.facts));
    }

    /// What was taken at a distance from `from` is now at the same distance in `to`, as far as that reaches.
    pub fn move_all(&self, cuts: &[Cut], from: u64, to: Range<u64>) {
        for cut in cuts {
            let start = to.start + (cut.start - from);
            let bytes = cut.bytes.min(to.end.saturating_sub(start));
            if bytes > 0 {
                self.add_extents(start, bytes, cut.facts);
            }
            if bytes < cut.bytes {
                let is_whole = cut.is_whole && bytes == 0;
                self.count_unmapping(&Cut { bytes: cut.bytes - bytes, is_whole, ..*cut });
            }
        }
    }

    /// `range` was just mapped: what the table has there is gone, though nobody told us.
    pub fn heal(&self, range: Range<u64>) {
        let lost = self.extents.cut(&self.file, range, |cut| {
            self.file.count(Health::Healed, 1);
            self.count_unmapping(&cut);
        });
        self.file.count(Health::DroppedExtents, lost);
    }

    fn count_unmapping(&self, cut: &Cut) {
        let facts = &cut.facts;
        if facts.flags & extent_flags::RESERVED != 0 {
            return;
        }
        let stack = self.stacks.entry(&self.file, facts.stack);
        stack.sampled_freed_bytes.fetch_add(cut.bytes, Relaxed);
        let unsampled = facts.inverse_probability - 1.0;
        add_float(&stack.unsampled_freed_space, unsampled * cut.bytes as f64);
        if cut.is_whole {
            stack.sampled_freed_objects.fetch_add(1, Relaxed);
            add_float(&stack.unsampled_freed_objects, unsampled);
            let lifetime_ns = self.now_ns().saturating_sub(facts.monotonic_ns);
            if let Some(bucket) = stack.lifetimes.get(lifetime_bucket(lifetime_ns)) {
                bucket.fetch_add(1, Relaxed);
            }
        }
    }
}
