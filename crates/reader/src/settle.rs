//! Live samples of a running process change between the copy of the keys and the copy of the samples: copies those again.

use crate::ReadAt;
use crate::bytes::Entry;
use crate::entries;
use crate::snapshot::LiveSample;
use ramson_format::{self as format, KEY_RESERVED};
use std::collections::HashMap;

/// Copies of one slot; a slot that changes still is being used all the time.
const ATTEMPTS: usize = 16;
const ENTRY_BYTES: usize = size_of::<format::LiveSample>();

/// Copies once more, key first, each slot whose copies do not belong together or that was being written. What stays as it
/// is, is damaged, and left for the caller to find. The regions begin at `keys_at` and `samples_at`.
pub fn settle<S: ReadAt + ?Sized>(
    source: &S,
    (keys_at, keys): (u64, &mut [u8]),
    (samples_at, samples): (u64, &mut [u8]),
) {
    let slots = keys.chunks_exact_mut(8).zip(samples.chunks_exact_mut(ENTRY_BYTES));
    for (slot, (key, sample)) in slots.enumerate() {
        for _ in 0..ATTEMPTS {
            let address = Entry(key).u64(0);
            let is_whole =
                address > KEY_RESERVED && entries::live_sample(address, Entry(sample)).is_some();
            if address == 0 || is_whole {
                break;
            }
            let (mut new_key, mut new_sample) = ([0; 8], [0; ENTRY_BYTES]);
            let copied = [
                source.read_at(keys_at + slot as u64 * 8, &mut new_key),
                source.read_at(samples_at + (slot * ENTRY_BYTES) as u64, &mut new_sample),
            ];
            let is_complete = matches!(copied, [Ok(8), Ok(ENTRY_BYTES)]);
            if !is_complete || (new_key[..] == *key && new_sample[..] == *sample) {
                break;
            }
            key.copy_from_slice(&new_key);
            sample.copy_from_slice(&new_sample);
        }
    }
}

/// One sample for each address. Memory that was freed and allocated again while the keys were copied may have been found in
/// its old slot and in its new one: the newer sample counts.
pub fn newest_of_each_address(samples: Vec<LiveSample>) -> Vec<LiveSample> {
    let mut places = HashMap::new();
    let mut distinct: Vec<LiveSample> = Vec::with_capacity(samples.len());
    for sample in samples {
        let place = *places.entry(sample.address).or_insert(distinct.len());
        match distinct.get_mut(place) {
            Some(other) if other.monotonic_ns > sample.monotonic_ns => {}
            Some(other) => *other = sample,
            None => distinct.push(sample),
        }
    }
    distinct
}
