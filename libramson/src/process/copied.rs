//! Threads that fork has copied.

use super::{NEW, PER_PROCESS};
use crate::arch::Thread;
use crate::{startup, sys};
use core::sync::atomic::Ordering::Relaxed;

/// In a thread that fork has copied and that has not recorded yet, by the C library's record: what the first sample needs is made ready by fewer
/// page faults than it would take on its own.
#[inline]
pub fn meet_child(thread: &Thread) {
    if is_copied(thread.tid.get(), startup::recorded_thread_id()) {
        make_ready();
    }
}

/// By the thread's ID when it last recorded and by the C library's record, each 0 where there is none: C libraries before glibc 2.34 do not
/// tell where theirs is.
fn is_copied(known: u32, recorded: u32) -> bool {
    known != 0 && recorded != 0 && known != recorded
}

#[cold]
fn make_ready() {
    // The first touch of this page is a store: after a load it would be a second page fault.
    let _ = PER_PROCESS.state.compare_exchange(NEW, NEW, Relaxed, Relaxed);
    sys::populate_code();
}

#[cfg(test)]
mod tests {
    use super::is_copied;

    #[test]
    fn copied_thread_is_known_by_libc() {
        assert!(is_copied(7, 8));
        assert!(!is_copied(7, 7), "it is the same thread");
        assert!(!is_copied(7, 0), "before glibc 2.34 it does not say");
        assert!(!is_copied(0, 8), "it has not recorded");
    }
}
