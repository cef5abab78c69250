//! Recent frees: a ring of the latest sampled blocks that were freed, for whoever reads a freed pointer.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::mix;

/// Entries that the longest ring has.
pub const MAX_RECENT_FREES: u64 = 1 << 16;
/// Part of the file that the ring may take.
const RECENT_FREES_SHARE: u64 = 64;
/// `Freed::free_stack` where the stack of the free is not known.
pub const NO_STACK: u32 = u32::MAX;

/// One block that was freed.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Freed {
    pub number: AtomicU64,
    pub address: AtomicU64,
    pub size: AtomicU64,
    pub alloc_monotonic_ns: AtomicU64,
    pub free_monotonic_ns: AtomicU64,
    pub alloc_stack: AtomicU32,
    pub free_stack: AtomicU32,
    pub alloc_tid: AtomicU32,
    pub free_tid: AtomicU32,
    pub check: AtomicU64,
}

/// Check of an entry: number, address, size, both times, alloc_stack | free_stack << 32, alloc_tid | free_tid << 32.
#[inline]
pub fn freed_check(words: &[u64; 7]) -> u64 {
    words.iter().fold(0x0066_7265_6564, |hash, &word| mix(hash, word))
}

/// Entries that a ring in a file of `file_bytes` can have at most.
pub const fn max_recent_frees(file_bytes: u64) -> u64 {
    let fits = file_bytes / RECENT_FREES_SHARE / size_of::<Freed>() as u64;
    if fits < MAX_RECENT_FREES { fits } else { MAX_RECENT_FREES }
}
