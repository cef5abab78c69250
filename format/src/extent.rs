//! Extents: anonymous memory that the program mapped itself, with the address range as one word.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::{PAGE_BYTES, mix};

/// Pages that one extent can have at most.
pub const EXTENT_MAX_PAGES: u64 = (1 << EXTENT_PAGES_BITS) - 1;
/// Bit of an extent's key while it is the upper rest of another extent that is being cut in two.
pub const EXTENT_PENDING: u64 = 1 << 63;
const EXTENT_PAGES_BITS: u32 = 28;
/// Extents that the largest table has room for: about as many mappings as Linux lets a process have.
pub const MAX_EXTENTS: u64 = 1 << 16;

/// Bits of `Extent::flags`.
pub mod extent_flags {
    /// Mapped without any access (PROT_NONE): address space, not memory.
    pub const RESERVED: u32 = 1;
    /// MAP_SHARED.
    pub const SHARED: u32 = 2;
}

/// What is known of an extent beside the range in its key.
#[repr(C)]
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "FORMAT.md is the one place that explains these fields")]
pub struct Extent {
    pub first_start: AtomicU64,
    pub first_end: AtomicU64,
    pub inverse_probability: AtomicU64,
    pub monotonic_ns: AtomicU64,
    pub stack: AtomicU32,
    pub tid: AtomicU32,
    pub flags: AtomicU32,
    pub reserved: AtomicU32,
    pub check: AtomicU64,
    pub reserved_word: AtomicU64,
}

/// A range of whole pages as the key of an extent. `None`: empty, too long for one extent, or outside what the kernel gives.
pub const fn extent_key(start: u64, bytes: u64) -> Option<u64> {
    let (page, pages) = (start / PAGE_BYTES, bytes / PAGE_BYTES);
    let fits = page > 0 && page < 1 << (63 - EXTENT_PAGES_BITS) && pages > 0;
    if fits && pages <= EXTENT_MAX_PAGES { Some(page << EXTENT_PAGES_BITS | pages) } else { None }
}

/// Start and end of the range that a key above `KEY_RESERVED` stands for, pending or not.
pub const fn extent_range(key: u64) -> (u64, u64) {
    let start = ((key & !EXTENT_PENDING) >> EXTENT_PAGES_BITS) * PAGE_BYTES;
    (start, start + (key & EXTENT_MAX_PAGES) * PAGE_BYTES)
}

/// Check of an extent's fields: first_start, first_end, inverse_probability, monotonic_ns, stack | tid << 32, flags.
pub fn extent_check(words: &[u64; 6]) -> u64 {
    words.iter().fold(0x6578_7465_6e74, |hash, &word| mix(hash, word))
}
