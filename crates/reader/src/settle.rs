//! Tables of a running process change between the copy of their keys and the copy of their entries: copies those again.

use crate::ReadAt;
use crate::snapshot::LiveSample;

/// Copies of one slot; a slot that changes still is being used all the time.
const ATTEMPTS: usize = 16;

/// An array of a table: its offset in the source, and its copy.
pub struct Copied<'a> {
    pub offset: u64,
    pub entry_bytes: usize,
    pub bytes: &'a mut [u8],
}

impl Copied<'_> {
    fn again(&self, source: &(impl ReadAt + ?Sized), slot: usize) -> Option<Vec<u8>> {
        let mut entry = vec![0; self.entry_bytes];
        let count = source.read_at(self.offset + (slot * self.entry_bytes) as u64, &mut entry);
        (count.ok()? == self.entry_bytes).then_some(entry)
    }
}

/// Copies each slot once more, in the order of the arrays, until its copies belong together. A slot that stays as it is,
/// without belonging together, is damaged, and left for the caller to find.
pub fn settle<const N: usize>(
    source: &(impl ReadAt + ?Sized),
    mut arrays: [Copied; N],
    is_settled: impl Fn([&[u8]; N]) -> bool,
) {
    let slots = arrays.iter().map(|array| array.bytes.len() / array.entry_bytes).min();
    for slot in 0..slots.unwrap_or(0) {
        for _ in 0..ATTEMPTS {
            let entries = arrays.each_ref().map(|array| {
                &array.bytes[slot * array.entry_bytes..(slot + 1) * array.entry_bytes]
            });
            if is_settled(entries) {
                break;
            }
            let again = arrays.each_ref().map(|array| array.again(source, slot));
            let is_as_before = again.iter().zip(entries).all(|(a, b)| a.as_deref() == Some(b));
            if is_as_before || again.contains(&None) {
                break;
            }
            for (array, entry) in arrays.iter_mut().zip(again.into_iter().flatten()) {
                array.bytes[slot * array.entry_bytes..][..array.entry_bytes]
                    .copy_from_slice(&entry);
            }
        }
    }
}

/// One sample for each address of a family. Memory that was freed and allocated again while the keys were copied may have been found in
/// its old slot and in its new one: the newer sample counts.
pub fn newest_of_each_address(mut samples: Vec<LiveSample>) -> Vec<LiveSample> {
    let mut keys: Vec<u64> = samples.iter().map(LiveSample::key).collect();
    keys.sort_unstable();
    let is_twice = |pair: &[u64]| pair[0] == pair[1];
    // Hardly ever.
    if keys.windows(2).any(is_twice) {
        samples.sort_by_key(|sample| (sample.key(), sample.monotonic_ns));
        samples.reverse();
        samples.dedup_by_key(|sample| sample.key());
    }
    samples
}
