//! The ring of recent frees: each entry is its own commit, so it is copied again until it is whole or stays as it is.

use crate::ReadAt;
use crate::bytes::Entry;
use crate::entries;
use crate::snapshot::Freed;

const ENTRY_BYTES: usize = size_of::<ramson_format::Freed>();
/// Copies of one entry; one that changes still is overwritten all the time.
const ATTEMPTS: usize = 16;

/// The whole entries of `ring`, which was copied from `offset`, the latest first, and how many were not whole.
pub fn freed<S: ReadAt + ?Sized>(source: &S, offset: u64, ring: &mut [u8]) -> (Vec<Freed>, u64) {
    let (mut freed, mut torn) = (Vec::new(), 0);
    for (slot, entry) in ring.chunks_exact_mut(ENTRY_BYTES).enumerate() {
        match settled(source, offset + (slot * ENTRY_BYTES) as u64, entry) {
            Some(whole) => freed.push(whole),
            None => torn += entry.iter().any(|&byte| byte != 0) as u64,
        }
    }
    freed.sort_unstable_by_key(|freed| std::cmp::Reverse(freed.number));
    (freed, torn)
}

/// A free whose stack was damaged has none; one whose allocation's stack was is of no use.
pub fn renumber(freed: &mut Freed, renumbered: &[Option<usize>]) -> bool {
    let number = |stack: usize| renumbered.get(stack).copied().flatten();
    freed.free_stack = freed.free_stack.and_then(number);
    number(freed.alloc_stack).is_some_and(|stack| {
        freed.alloc_stack = stack;
        true
    })
}

fn settled<S: ReadAt + ?Sized>(source: &S, offset: u64, entry: &mut [u8]) -> Option<Freed> {
    for _ in 0..ATTEMPTS {
        let whole = entries::freed(Entry(entry));
        let mut again = [0; ENTRY_BYTES];
        let is_empty = entry.iter().all(|&byte| byte == 0);
        if whole.is_some()
            || is_empty
            || !matches!(source.read_at(offset, &mut again), Ok(ENTRY_BYTES))
            || again[..] == *entry
        {
            return whole;
        }
        entry.copy_from_slice(&again);
    }
    None
}
