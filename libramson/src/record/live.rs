//! The live table: from an address to its sample, in the profile file itself.
//!
//! Segments of doubling size; in each, an address has a window of 16 slots. A record is inserted into the first free slot of
//! its windows, so removal needs no tombstones, and growth moves nothing. A slot's key makes the record: 0 free, 1 reserved by
//! one thread, else the address, stored with release after the fields.

use super::file::ProfileFile;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ramson_format::{KEY_RESERVED, LiveSample, RegionKind, live_check, live_segment, mix};

const WINDOW: u64 = 16;
const LINE: u64 = 8;
/// More segments than any file has.
const MAX_SEGMENTS: u32 = 24;

/// Has no state of its own beyond the file.
pub struct LiveTable;

/// A record that one thread holds: its key is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(u64);

impl Claim {
    /// As a word that is never 0.
    pub fn into_word(self) -> u64 {
        self.0 + 1
    }

    /// 0 is no claim.
    pub fn from_word(word: u64) -> Option<Self> {
        word.checked_sub(1).map(Self)
    }
}

/// A sample as the table keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub size: u64,
    pub inverse_probability: f64,
    pub monotonic_ns: u64,
    pub stack: u32,
    pub tid: u32,
}

/// The slots where `address` may be, in segments `0..segments`.
#[inline]
fn slots(address: u64, segments: u32) -> impl Iterator<Item = u64> {
    let hash = mix(0, address >> 3);
    (0..segments).flat_map(move |segment| {
        let (first, count) = live_segment(segment);
        let start = (hash >> segment) & (count - 1) & !(LINE - 1);
        (0..WINDOW).map(move |step| first + ((start + step) & (count - 1)))
    })
}

fn segments_within(slots: u64) -> u32 {
    (0..MAX_SEGMENTS).take_while(|&segment| live_segment(segment + 1).0 <= slots).count() as u32
}

impl LiveTable {
    fn segments(&self, file: &ProfileFile) -> u32 {
        segments_within(
            file.header().regions[RegionKind::LiveKeys as usize].committed.load(Acquire),
        )
    }

    fn key<'a>(&self, file: &'a ProfileFile, slot: u64) -> Option<&'a AtomicU64> {
        file.entry(RegionKind::LiveKeys, slot)
    }

    /// Publishes a sample. False: the table is full.
    pub fn insert(&self, file: &ProfileFile, address: u64, sample: &Sample) -> bool {
        for _ in 0..2 {
            let segments = self.segments(file);
            for slot in slots(address, segments) {
                let Some(key) = self.key(file, slot) else { return false };
                let is_free = key.load(Relaxed) == 0;
                // Acquire pairs with the release of whoever freed the slot.
                if is_free && key.compare_exchange(0, KEY_RESERVED, Acquire, Relaxed).is_ok() {
                    self.store(file, slot, address, sample);
                    key.store(address, Release);
                    return true;
                }
            }
            let slots_needed = live_segment(segments + 1).0;
            // Samples first: the number of keys is what tells how many segments there are.
            if !file.grow_to(RegionKind::LiveSamples, slots_needed)
                || !file.grow_to(RegionKind::LiveKeys, slots_needed)
            {
                return false;
            }
        }
        false
    }

    fn store(&self, file: &ProfileFile, slot: u64, address: u64, sample: &Sample) {
        let Some(entry) = file.entry::<LiveSample>(RegionKind::LiveSamples, slot) else { return };
        let inverse_probability = sample.inverse_probability.to_bits();
        let Sample { size, monotonic_ns, stack, tid, .. } = *sample;
        entry.size.store(size, Relaxed);
        entry.inverse_probability.store(inverse_probability, Relaxed);
        entry.monotonic_ns.store(monotonic_ns, Relaxed);
        entry.stack.store(stack, Relaxed);
        entry.tid.store(tid, Relaxed);
        let check = live_check(address, size, inverse_probability, monotonic_ns, stack, tid);
        entry.check.store(check, Relaxed);
    }

    /// Takes hold of the record of `address`: of several threads that try, one succeeds.
    pub fn claim(&self, file: &ProfileFile, address: u64) -> Option<Claim> {
        if address <= KEY_RESERVED {
            return None;
        }
        slots(address, self.segments(file)).find_map(|slot| {
            let key = self.key(file, slot)?;
            let is_it = key.load(Relaxed) == address;
            // Acquire pairs with the release in `insert`: the fields are there.
            (is_it && key.compare_exchange(address, KEY_RESERVED, Acquire, Relaxed).is_ok())
                .then_some(Claim(slot))
        })
    }

    /// The fields of a claimed record.
    pub fn sample(&self, file: &ProfileFile, claim: Claim) -> Sample {
        let Some(entry) = file.entry::<LiveSample>(RegionKind::LiveSamples, claim.0) else {
            return Sample { size: 0, inverse_probability: 0.0, monotonic_ns: 0, stack: 0, tid: 0 };
        };
        Sample {
            size: entry.size.load(Relaxed),
            inverse_probability: f64::from_bits(entry.inverse_probability.load(Relaxed)),
            monotonic_ns: entry.monotonic_ns.load(Relaxed),
            stack: entry.stack.load(Relaxed),
            tid: entry.tid.load(Relaxed),
        }
    }

    /// Gives a claimed slot back.
    pub fn release(&self, file: &ProfileFile, claim: Claim) {
        if let Some(key) = self.key(file, claim.0) {
            key.store(0, Release);
        }
    }

    /// Puts a claimed record back as it was.
    pub fn restore(&self, file: &ProfileFile, claim: Claim, address: u64) {
        if let Some(key) = self.key(file, claim.0) {
            key.store(address, Release);
        }
    }
}
