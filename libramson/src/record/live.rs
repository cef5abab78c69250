//! The live table: from an address to its sample or extent, in the profile file itself.
//!
//! Segments of doubling size; in each, an address has a window of 16 slots. A record is inserted into the first free slot of
//! its windows, so removal needs no tombstones, and growth moves nothing. A slot's key makes the record: 0 free, 1 reserved by
//! one thread, else the address, stored with release after the fields.

use super::file::ProfileFile;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::{
    KEY_RESERVED, LIVE_FIRST_SEGMENT, LiveSample, RegionKind, live_check, live_segment, mix,
};

/// Keys of one cache line; a window is two lines.
const LINE: usize = 8;
/// More segments than the longest file has.
const MAX_SEGMENTS: usize = 32;

/// Segments that `grow_ahead` adds: with three, eight times as many samples as there were at most, and a few.
const SEGMENTS_AHEAD: u32 = 3;

/// A record that one thread holds: its key is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(u64);

/// A sample as the table keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub size: u64,
    pub inverse_probability: f64,
    pub monotonic_ns: u64,
    pub stack: u32,
    pub tid: u32,
    /// 0 for a block of the heap; of an extent as in `LiveSample::flags`, and its number.
    pub flags: u32,
    pub number: u32,
}

/// First slots of the lines where `address` may be, in segments `0..segments`.
#[inline]
fn lines(address: u64, segments: u32) -> impl Iterator<Item = u64> {
    let hash = mix(0, address >> 3);
    (0..segments).flat_map(move |segment| {
        let (first, count) = live_segment(segment);
        let start = (hash >> segment) & (count - 1) & !(LINE as u64 - 1);
        [first + start, first + ((start + LINE as u64) & (count - 1))]
    })
}

/// Whole segments: segment k ends at 512·(2^(k+1) − 1).
fn segments_of(file: &ProfileFile) -> u32 {
    (file.committed(RegionKind::LiveKeys) / LIVE_FIRST_SEGMENT + 1).ilog2()
}

fn line_of(file: &ProfileFile, first: u64) -> Option<&[AtomicU64; LINE]> {
    file.entries(RegionKind::LiveKeys, first)
}

/// Publishes a sample. False: the table is full.
pub fn insert(file: &ProfileFile, address: u64, sample: &Sample) -> bool {
    for _ in 0..MAX_SEGMENTS {
        let segments = segments_of(file);
        for line in lines(address, segments) {
            let Some(keys) = line_of(file, line) else { return false };
            for (key, slot) in keys.iter().zip(line..) {
                let is_free = key.load(Relaxed) == 0;
                // Acquire pairs with the release of whoever freed the slot.
                if is_free && key.compare_exchange(0, KEY_RESERVED, Acquire, Relaxed).is_ok() {
                    store(file, slot, address, sample);
                    key.store(address, Release);
                    return true;
                }
            }
        }
        // Other threads may fill what one has made before it gets there: the table is full only when it cannot grow.
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

/// Adds segments until most of what one program holds live at the default interval fits.
pub fn grow_ahead(file: &ProfileFile) {
    let slots = live_segment(segments_of(file) + SEGMENTS_AHEAD).0;
    let _ =
        file.grow_to(RegionKind::LiveSamples, slots) && file.grow_to(RegionKind::LiveKeys, slots);
}

fn store(file: &ProfileFile, slot: u64, address: u64, sample: &Sample) {
    let Some(entry) = file.entry::<LiveSample>(RegionKind::LiveSamples, slot) else { return };
    let inverse_probability = sample.inverse_probability.to_bits();
    let Sample { size, monotonic_ns, stack, tid, flags, number, .. } = *sample;
    entry.size.store(size, Relaxed);
    entry.inverse_probability.store(inverse_probability, Relaxed);
    entry.monotonic_ns.store(monotonic_ns, Relaxed);
    entry.stack.store(stack, Relaxed);
    entry.tid.store(tid, Relaxed);
    entry.flags.store(flags, Relaxed);
    entry.number.store(number, Relaxed);
    let check = live_check(&[
        address,
        size,
        inverse_probability,
        monotonic_ns,
        stack as u64 | (tid as u64) << 32,
        flags as u64 | (number as u64) << 32,
    ]);
    entry.check.store(check, Relaxed);
}

/// Takes hold of the record of `address`: of several threads that try, one succeeds.
pub fn claim(file: &ProfileFile, address: u64) -> Option<Claim> {
    if address <= KEY_RESERVED {
        return None;
    }
    lines(address, segments_of(file)).find_map(|line| {
        let keys = line_of(file, line)?;
        let place = keys.iter().position(|key| key.load(Relaxed) == address)?;
        // Acquire pairs with the release in `insert`: the fields are there.
        let taken = keys[place].compare_exchange(address, KEY_RESERVED, Acquire, Relaxed);
        taken.is_ok().then_some(Claim(line + place as u64))
    })
}

/// The fields of a claimed record.
pub fn sample(file: &ProfileFile, claim: Claim) -> Sample {
    let Some(entry) = file.entry::<LiveSample>(RegionKind::LiveSamples, claim.0) else {
        return Sample::default();
    };
    Sample {
        size: entry.size.load(Relaxed),
        inverse_probability: f64::from_bits(entry.inverse_probability.load(Relaxed)),
        monotonic_ns: entry.monotonic_ns.load(Relaxed),
        stack: entry.stack.load(Relaxed),
        tid: entry.tid.load(Relaxed),
        flags: entry.flags.load(Relaxed),
        number: entry.number.load(Relaxed),
    }
}

/// Gives a claimed slot back.
pub fn release(file: &ProfileFile, claim: Claim) {
    restore(file, claim, 0);
}

/// Puts a claimed record back as it was.
pub fn restore(file: &ProfileFile, claim: Claim, address: u64) {
    if let Some(key) = file.entry::<AtomicU64>(RegionKind::LiveKeys, claim.0) {
        key.store(address, Release);
    }
}
