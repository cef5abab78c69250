//! The extent table: from an address range to the mapping that it is left of, in the profile file itself.
//!
//! An extent's range is one word, its key, so an end is cut off by one compare-and-swap, and nobody ever waits. A hole takes three
//! steps: the upper rest is put in, pending; the extent is shortened; the rest becomes an extent like any other. A pending
//! one counts unless an extent still reaches over it, so the table is true after every step, for other threads and for a reader.
//!
//! A search looks only at blocks of slots whose extents may be near: it stands beside a system call of a microsecond.

pub mod blocks;

use super::file::ProfileFile;
use blocks::{BLOCK, Blocks};
use core::ops::Range;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{
    EXTENT_PENDING, Extent, KEY_RESERVED, RegionKind, extent_check, extent_key, extent_range,
};

const FIRST_SLOTS: u64 = BLOCK;
/// Searches for one range while other threads cut holes; each is repeated only because one of them got on.
const MAX_SEARCHES: usize = 64;

/// All zero is "no extents".
pub struct ExtentTable {
    /// Slots in use, or about to be.
    used: AtomicU64,
    pub blocks: Blocks,
    /// Moves on between the first and the second step of every hole: a search that sees no change has missed no rest.
    holes: AtomicU64,
}

/// What an extent keeps of the mapping that it is left of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    pub inverse_probability: f64,
    pub monotonic_ns: u64,
    pub stack: u32,
    pub tid: u32,
    pub flags: u32,
}

/// A range that was taken out of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cut {
    pub start: u64,
    pub bytes: u64,
    pub facts: Facts,
    /// Nothing is left of the extent that it was cut from.
    pub is_whole: bool,
}

impl Cut {
    fn of(range: Range<u64>, facts: Facts, is_whole: bool) -> Self {
        Self { start: range.start, bytes: range.end - range.start, facts, is_whole }
    }
}

/// How cutting one extent ended.
enum Outcome {
    Done,
    /// Another thread changed it first.
    Changed,
    /// There was no room for the rest above the hole.
    RestLost,
}

fn range_of(key: u64) -> Range<u64> {
    let (start, end) = extent_range(key);
    start..end
}

impl ExtentTable {
    /// Whether nothing can be found: the usual answer, for the price of one load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used.load(Relaxed) == 0
    }

    /// Adds an extent. False: there is no room, or the range cannot be one.
    pub fn insert(&self, file: &ProfileFile, start: u64, bytes: u64, facts: &Facts) -> bool {
        extent_key(start, bytes).is_some_and(|key| self.fill(file, key, facts).is_some())
    }

    /// Takes `range` out of every extent, and hands on what was there. Returns the number of rests that found no room.
    pub fn cut(&self, file: &ProfileFile, range: Range<u64>, mut taken: impl FnMut(Cut)) -> u64 {
        let mut lost = 0;
        for _ in 0..MAX_SEARCHES {
            let holes = self.holes.load(SeqCst);
            let mut is_settled = true;
            let mut is_pending = false;
            for (slot, value) in self.overlapping(file, &range) {
                if self.is_covered(file, slot, value) {
                    is_pending = true;
                    continue;
                }
                match self.cut_one(file, slot, value, &range, &mut taken) {
                    Outcome::Done => {}
                    Outcome::Changed => is_settled = false,
                    Outcome::RestLost => lost += 1,
                }
            }
            // Whoever cuts that hole may have shortened the extent over the rest before this search came to it.
            if is_pending {
                let mut rests = self.overlapping(file, &range);
                is_settled &= rests.all(|(slot, value)| self.is_covered(file, slot, value));
            }
            if is_settled && self.holes.load(SeqCst) == holes {
                break;
            }
        }
        lost
    }

    fn cut_one(
        &self,
        file: &ProfileFile,
        slot: u64,
        value: u64,
        range: &Range<u64>,
        taken: &mut impl FnMut(Cut),
    ) -> Outcome {
        let Some(key) = self.key(file, slot) else { return Outcome::Done };
        let extent = range_of(value);
        let facts = self.facts(file, slot);
        let cut = extent.start.max(range.start)..extent.end.min(range.end);
        let lower = extent_key(extent.start, cut.start - extent.start);
        let upper = extent_key(cut.end, extent.end - cut.end);
        let swap = |to: u64| key.compare_exchange(value, to, AcqRel, Relaxed).is_ok();
        let outcome = match (lower, upper) {
            (None, None) if swap(KEY_RESERVED) => {
                self.release(file, slot, &extent);
                Outcome::Done
            }
            (None, Some(rest)) | (Some(rest), None) if swap(rest) => Outcome::Done,
            (Some(lower), Some(upper)) => self.cut_hole(file, lower, upper, &facts, swap),
            _ => Outcome::Changed,
        };
        if !matches!(outcome, Outcome::Changed) {
            taken(Cut::of(cut, facts, lower.is_none() && upper.is_none()));
        }
        outcome
    }

    fn cut_hole(
        &self,
        file: &ProfileFile,
        lower: u64,
        upper: u64,
        facts: &Facts,
        swap: impl Fn(u64) -> bool,
    ) -> Outcome {
        let pending = upper | EXTENT_PENDING;
        let Some((slot, rest)) = self.fill(file, pending, facts) else {
            return if swap(lower) { Outcome::RestLost } else { Outcome::Changed };
        };
        self.holes.fetch_add(1, SeqCst);
        file.header().extent_holes.fetch_add(1, SeqCst);
        if swap(lower) {
            // If this fails, somebody has found and cut the rest already, and made it an extent.
            let _ = rest.compare_exchange(pending, upper, AcqRel, Relaxed);
            return Outcome::Done;
        }
        if rest.compare_exchange(pending, KEY_RESERVED, AcqRel, Relaxed).is_ok() {
            self.release(file, slot, &range_of(upper));
        }
        Outcome::Changed
    }

    /// Whether `value`, found in `slot`, is a pending rest that another extent still reaches over. It may be pending no more.
    fn is_covered(&self, file: &ProfileFile, slot: u64, value: u64) -> bool {
        let start = range_of(value).start;
        value & EXTENT_PENDING != 0
            && self
                .overlapping(file, &(start..start + 1))
                .any(|(other, key)| other != slot && key & EXTENT_PENDING == 0)
    }

    /// Puts a key and its facts into a free slot.
    fn fill<'a>(
        &self,
        file: &'a ProfileFile,
        value: u64,
        facts: &Facts,
    ) -> Option<(u64, &'a AtomicU64)> {
        // Before the slot is taken, so that no search finds the table empty that should not.
        let used = self.used.fetch_add(1, Relaxed) + 1;
        for is_second in [false, true] {
            // Where there is little choice of a block, hulls soon reach over everything: a quarter of the slots stays free.
            if is_second || used * 4 > self.slots(file) * 3 {
                self.make_room(file);
            }
            if let Some(slot) = self.claim_free(file, &range_of(value)) {
                let key = self.key(file, slot)?;
                self.store(file, slot, range_of(value), facts);
                key.store(value, Release);
                return Some((slot, key));
            }
        }
        self.used.fetch_sub(1, Relaxed);
        None
    }

    /// Twice as many slots, as far as there is space.
    fn make_room(&self, file: &ProfileFile) {
        let more = (self.slots(file) * 2).max(FIRST_SLOTS);
        let more = more.min(file.capacity(RegionKind::ExtentKeys));
        // Extents first: the number of keys is what tells how many there are.
        let _ =
            file.grow_to(RegionKind::Extents, more) && file.grow_to(RegionKind::ExtentKeys, more);
    }

    /// Reserves a free slot for `range`.
    fn claim_free(&self, file: &ProfileFile, range: &Range<u64>) -> Option<u64> {
        let slots = self.slots(file);
        // A second search only where other threads changed slots before and behind the first one.
        for _ in 0..MAX_SEARCHES {
            let block = self.blocks.reserve(slots, range)?;
            let mut keys = self.keys(file, &block).iter().zip(block.clone());
            // Acquire pairs with the release of whoever freed the slot.
            let claimed = keys.find(|(key, _)| {
                key.load(Relaxed) == 0
                    && key.compare_exchange(0, KEY_RESERVED, Acquire, Relaxed).is_ok()
            });
            if let Some((_, slot)) = claimed {
                return Some(slot);
            }
            self.leave_block(file, block.start, range);
        }
        None
    }

    /// Gives a reserved slot back, in which `range` was or should have been.
    fn release(&self, file: &ProfileFile, slot: u64, range: &Range<u64>) {
        if let Some(key) = self.key(file, slot) {
            key.store(0, Release);
        }
        self.leave_block(file, slot, range);
        self.used.fetch_sub(1, Relaxed);
    }

    fn leave_block(&self, file: &ProfileFile, slot: u64, range: &Range<u64>) {
        self.blocks.release(slot, range, |block| {
            let slots = self.slots(file);
            let extents = self.extents_in(file, block.start..slots.min(block.end));
            extents.map(|(_, key)| range_of(key))
        });
    }

    fn slots(&self, file: &ProfileFile) -> u64 {
        file.committed(RegionKind::ExtentKeys)
    }

    /// The slots of all extents that overlap `range`, and their keys.
    fn overlapping(
        &self,
        file: &ProfileFile,
        range: &Range<u64>,
    ) -> impl Iterator<Item = (u64, u64)> {
        let blocks = self.blocks.around(self.slots(file), range);
        let extents = blocks.flat_map(|block| self.extents_in(file, block));
        extents.filter(|&(_, key)| overlaps(key, range))
    }

    /// The slots of a block's extents, and their keys.
    fn extents_in(
        &self,
        file: &ProfileFile,
        block: Range<u64>,
    ) -> impl Iterator<Item = (u64, u64)> {
        let keys = self.keys(file, &block).iter().zip(block);
        let values = keys.map(|(key, slot)| (slot, key.load(Acquire)));
        values.filter(|&(_, value)| value > KEY_RESERVED)
    }

    /// The keys of a block, taken or not.
    fn keys<'a>(&self, file: &'a ProfileFile, block: &Range<u64>) -> &'a [AtomicU64] {
        let count = (block.end - block.start) as usize;
        file.slice(RegionKind::ExtentKeys, block.start, count).unwrap_or_default()
    }

    fn key<'a>(&self, file: &'a ProfileFile, slot: u64) -> Option<&'a AtomicU64> {
        file.entry(RegionKind::ExtentKeys, slot)
    }

    fn store(&self, file: &ProfileFile, slot: u64, range: Range<u64>, facts: &Facts) {
        let Some(entry) = file.entry::<Extent>(RegionKind::Extents, slot) else { return };
        let Facts { monotonic_ns, stack, tid, flags, .. } = *facts;
        let inverse_probability = facts.inverse_probability.to_bits();
        let check = extent_check(&[
            range.start,
            range.end,
            inverse_probability,
            monotonic_ns,
            stack as u64 | (tid as u64) << 32,
            flags as u64,
        ]);
        entry.first_start.store(range.start, Relaxed);
        entry.first_end.store(range.end, Relaxed);
        entry.inverse_probability.store(inverse_probability, Relaxed);
        entry.monotonic_ns.store(monotonic_ns, Relaxed);
        entry.stack.store(stack, Relaxed);
        entry.tid.store(tid, Relaxed);
        entry.flags.store(flags, Relaxed);
        entry.check.store(check, Relaxed);
    }

    fn facts(&self, file: &ProfileFile, slot: u64) -> Facts {
        let Some(entry) = file.entry::<Extent>(RegionKind::Extents, slot) else {
            return Facts::default();
        };
        Facts {
            inverse_probability: f64::from_bits(entry.inverse_probability.load(Relaxed)),
            monotonic_ns: entry.monotonic_ns.load(Relaxed),
            stack: entry.stack.load(Relaxed),
            tid: entry.tid.load(Relaxed),
            flags: entry.flags.load(Relaxed),
        }
    }
}

fn overlaps(key: u64, range: &Range<u64>) -> bool {
    let extent = range_of(key);
    extent.start < range.end && range.start < extent.end
}
