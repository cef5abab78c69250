//! The live table: from an address to its sample or extent, in the profile file itself.
//!
//! Segments of doubling size; in each, a key has a window of 16 slots. A record is inserted into the first free slot of
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

/// A slot that one thread holds: its key is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u64);

impl Slot {
    pub fn of(number: u64) -> Self {
        Self(number)
    }

    pub fn number(self) -> u64 {
        self.0
    }
}

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

/// The first that `find_in` finds in the lines where `key` may be, in segments `0..segments`, by the first slot of each line. A loop:
/// iterators one in the other keep their state in memory.
#[inline]
fn find_line<T>(key: u64, segments: u32, find_in: impl Fn(u64) -> Option<T>) -> Option<T> {
    let hash = mix(0, key >> 3);
    for segment in 0..segments {
        let (first, count) = live_segment(segment);
        let start = (hash >> segment) & (count - 1) & !(LINE as u64 - 1);
        let next = (start + LINE as u64) & (count - 1);
        if let Some(found) = find_in(first + start).or_else(|| find_in(first + next)) {
            return Some(found);
        }
    }
    None
}

/// In private memory, the lines that all addresses share are tried first: the few samples of a short process are on few pages.
const SHARED_LINES: [u64; 2] = [0, LINE as u64];

/// The first touch of the page of shared lines is a store: after a load it would be a second page fault.
pub fn touch(file: &ProfileFile) {
    if let Some(key) = key_of(file, Slot(SHARED_LINES[0])) {
        // The compiler makes a load of adding nothing.
        let _ = key.compare_exchange(0, 0, Relaxed, Relaxed);
    }
}

/// Whole segments: segment k ends at 512·(2^(k+1) − 1).
fn segments_of(file: &ProfileFile) -> u32 {
    (file.committed(RegionKind::LiveKeys) / LIVE_FIRST_SEGMENT + 1).ilog2()
}

fn line_of(file: &ProfileFile, first: u64) -> Option<&[AtomicU64; LINE]> {
    file.entries(RegionKind::LiveKeys, first)
}

/// Publishes a sample. False: the table is full.
#[inline]
pub fn insert(file: &ProfileFile, key: u64, sample: &Sample) -> bool {
    let Some((slot, place)) = reserve(file, key) else { return false };
    store(file, slot, key, sample);
    place.store(key, Release);
    true
}

/// A slot for `key`, and its place. `None`: the table is full.
#[inline]
pub fn reserve(file: &ProfileFile, key: u64) -> Option<(Slot, &AtomicU64)> {
    for _ in 0..MAX_SEGMENTS {
        let segments = segments_of(file);
        if file.is_private()
            && let Some(found) = SHARED_LINES.into_iter().find_map(|line| free_in(file, line))
        {
            return Some(found);
        }
        if let Some(found) = find_line(key, segments, |line| free_in(file, line)) {
            return Some(found);
        }
        // Other threads may fill what one has made before it gets there: the table is full only when it cannot grow.
        let slots_needed = live_segment(segments + 1).0;
        // Samples first: the number of keys is what tells how many segments there are.
        if !file.grow_to(RegionKind::LiveSamples, slots_needed)
            || !file.grow_to(RegionKind::LiveKeys, slots_needed)
        {
            return None;
        }
    }
    None
}

#[inline]
fn free_in(file: &ProfileFile, line: u64) -> Option<(Slot, &AtomicU64)> {
    line_of(file, line)?.iter().zip(line..).find_map(|(key, slot)| {
        let is_free = key.load(Relaxed) == 0;
        // Acquire pairs with the release of whoever freed the slot.
        let is_ours = is_free && key.compare_exchange(0, KEY_RESERVED, Acquire, Relaxed).is_ok();
        is_ours.then_some((Slot(slot), key))
    })
}

/// Adds segments until most of what one program holds live at the default interval fits.
pub fn grow_ahead(file: &ProfileFile) {
    let slots = live_segment(segments_of(file) + SEGMENTS_AHEAD).0;
    let _ =
        file.grow_to(RegionKind::LiveSamples, slots) && file.grow_to(RegionKind::LiveKeys, slots);
}

/// Fills a reserved slot.
#[inline]
pub fn store(file: &ProfileFile, slot: Slot, key: u64, sample: &Sample) {
    let Some(entry) = file.entry::<LiveSample>(RegionKind::LiveSamples, slot.0) else { return };
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
        key,
        size,
        inverse_probability,
        monotonic_ns,
        stack as u64 | (tid as u64) << 32,
        flags as u64 | (number as u64) << 32,
    ]);
    entry.check.store(check, Relaxed);
}

/// Takes hold of the record with this key: of several threads that try, one succeeds.
pub fn claim(file: &ProfileFile, key: u64) -> Option<Slot> {
    if key <= KEY_RESERVED {
        return None;
    }
    let (slot, place) = find(file, key)?;
    // Acquire pairs with the release in `insert`: the fields are there.
    let taken = place.compare_exchange(key, KEY_RESERVED, Acquire, Relaxed);
    taken.is_ok().then_some(slot)
}

/// The slot with this key.
#[inline]
pub fn find(file: &ProfileFile, key: u64) -> Option<(Slot, &AtomicU64)> {
    let find_in = |line| {
        let keys = line_of(file, line)?;
        let place = keys.iter().position(|place| place.load(Relaxed) == key)?;
        Some((Slot(line + place as u64), &keys[place]))
    };
    if file.is_private()
        && let Some(found) = SHARED_LINES.into_iter().find_map(find_in)
    {
        return Some(found);
    }
    find_line(key, segments_of(file), find_in)
}

/// The fields of a claimed record.
pub fn sample(file: &ProfileFile, slot: Slot) -> Sample {
    let Some(entry) = file.entry::<LiveSample>(RegionKind::LiveSamples, slot.0) else {
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
pub fn release(file: &ProfileFile, slot: Slot) {
    restore(file, slot, 0);
}

/// Puts a claimed record back as it was.
#[inline]
pub fn restore(file: &ProfileFile, slot: Slot, key: u64) {
    if let Some(place) = key_of(file, slot) {
        place.store(key, Release);
    }
}

#[inline]
pub fn key_of(file: &ProfileFile, slot: Slot) -> Option<&AtomicU64> {
    file.entry(RegionKind::LiveKeys, slot.0)
}
