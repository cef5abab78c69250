//! A thread's countdown is parked while ramson works for it: what a signal handler allocates meanwhile is not sampled.
//!
//! A handler may also leave our frames for good, by siglongjmp. `Thread::parked_at` then still names a frame that is gone, and the
//! next slow path on this thread finds that out.

use crate::arch::{self, Thread};
use crate::sampler::{BUSY, PARKED};
use crate::sys;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// A stack pointer farther than that from another one is on another stack.
const MAX_STACK_BYTES: u64 = 16 << 20;

/// Runs `work` with the countdown parked.
pub fn parked<R>(thread: &Thread, work: impl FnOnce() -> R) -> R {
    if is_busy(thread, arch::stack_pointer()) {
        // In a handler that interrupted us: the outer frame parked the countdown and will set it.
        return work();
    }
    let countdown = thread.countdown.replace(BUSY);
    thread.parked_at.set(arch::stack_pointer());
    // A handler on this thread must find both set.
    compiler_fence(SeqCst);
    let result = work();
    compiler_fence(SeqCst);
    thread.parked_at.set(0);
    let meanwhile = BUSY.wrapping_sub(thread.countdown.get());
    // Beyond `PARKED` it borrowed, and the thread left before it was set anew: no allocation would ever borrow again.
    let rest = if countdown > PARKED { 0 } else { countdown.saturating_sub(meanwhile) };
    thread.countdown.set(rest);
    result
}

/// Whether a slow path of this thread has been interrupted and will go on. `stack_pointer` is that of the present call of a hook,
/// the higher the better.
#[inline]
pub fn is_busy(thread: &Thread, stack_pointer: u64) -> bool {
    let parked_at = thread.parked_at.get();
    if parked_at == 0 {
        return false;
    }
    let is_gone = is_gone(parked_at, stack_pointer);
    if is_gone {
        thread.parked_at.set(0);
    }
    !is_gone
}

/// Whether the frame at `parked_at` is certainly no more. On doubt the thread stays as it is, unsampled.
#[cold]
fn is_gone(parked_at: u64, stack_pointer: u64) -> bool {
    let Ok(signal_stack) = sys::signal_stack() else { return false };
    if signal_stack.is_in_use {
        // Its place says nothing about which frame is older.
        return false;
    }
    if (signal_stack.low..signal_stack.high).contains(&parked_at) {
        return true;
    }
    // The stack grows down: what lies below the stack pointer has returned or was jumped out of.
    (1..MAX_STACK_BYTES).contains(&stack_pointer.wrapping_sub(parked_at))
}
