//! Whether the loader has loaded objects since their pointers were last looked at, by its own count of objects.

use core::sync::atomic::{AtomicU64, Ordering::*};

/// Address of the loader's count; 0 if that is not followed.
static COUNT_AT: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Whether it has loaded some since the last look.
#[inline]
pub fn are_new() -> bool {
    count().is_some_and(|count| count != SEEN.load(Relaxed))
}

/// How many it has loaded by now, if that is followed.
#[inline]
pub fn count() -> Option<u64> {
    let count_at = COUNT_AT.load(Acquire);
    // SAFETY: what is there was the loader's own count when it was first looked at, and the loader is never unloaded.
    (count_at != 0).then(|| unsafe { count_in(count_at) })
}

/// # Safety
/// An aligned word is there that stays.
pub unsafe fn count_in(count_at: u64) -> u64 {
    // SAFETY: the caller's. The loader writes the aligned word while others read it.
    unsafe { (*(count_at as *const AtomicU64)).load(Relaxed) }
}

/// Notes that the first `count` objects have been looked at.
pub fn are_seen(count: u64) {
    SEEN.store(count, Relaxed);
}

/// Follows the count at this address, or none if that is 0.
pub fn follow_count_at(count_at: u64) {
    COUNT_AT.store(count_at, Release);
}
