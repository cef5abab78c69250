//! Tables of a running process change between the copy of the keys and the copy of the entries: copies those again.

use crate::ReadAt;
use crate::bytes::Entry;
use crate::snapshot::LiveSample;
use ramson_format::KEY_RESERVED;

/// Copies of one slot; a slot that changes still is being used all the time.
const ATTEMPTS: usize = 16;

/// Where the keys, or the entries, of a table are in the source, and their copies.
pub struct Copied<'a> {
    pub offset: u64,
    pub bytes: &'a mut [u8],
}

/// Copies once more, key first, each slot whose copies do not belong together or that was being written. What stays as it
/// is, is damaged, and left for the caller to find.
pub fn settle<S: ReadAt + ?Sized, const ENTRY_BYTES: usize>(
    source: &S,
    keys: Copied,
    entries: Copied,
    is_whole: impl Fn(u64, Entry) -> bool,
) {
    let slots = keys.bytes.chunks_exact_mut(8).zip(entries.bytes.chunks_exact_mut(ENTRY_BYTES));
    for (slot, (key, entry)) in slots.enumerate() {
        for _ in 0..ATTEMPTS {
            let value = Entry(key).u64(0);
            if value == 0 || (value > KEY_RESERVED && is_whole(value, Entry(entry))) {
                break;
            }
            let (mut new_key, mut new_entry) = ([0; 8], [0; ENTRY_BYTES]);
            let copied = [
                source.read_at(keys.offset + slot as u64 * 8, &mut new_key),
                source.read_at(entries.offset + (slot * ENTRY_BYTES) as u64, &mut new_entry),
            ];
            let is_complete = matches!(copied, [Ok(8), Ok(count)] if count == ENTRY_BYTES);
            if !is_complete || (new_key[..] == *key && new_entry[..] == *entry) {
                break;
            }
            key.copy_from_slice(&new_key);
            entry.copy_from_slice(&new_entry);
        }
    }
}

/// One sample for each address. Memory that was freed and allocated again while the keys were copied may have been found in
/// its old slot and in its new one: the newer sample counts.
pub fn newest_of_each_address(mut samples: Vec<LiveSample>) -> Vec<LiveSample> {
    let mut addresses: Vec<u64> = samples.iter().map(|sample| sample.address).collect();
    addresses.sort_unstable();
    let is_twice = |pair: &[u64]| pair[0] == pair[1];
    // Hardly ever.
    if addresses.windows(2).any(is_twice) {
        samples.sort_by_key(|sample| (sample.address, sample.monotonic_ns));
        samples.reverse();
        samples.dedup_by_key(|sample| sample.address);
    }
    samples
}
