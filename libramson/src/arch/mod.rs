//! Differences between architectures, behind one interface: thread state, system calls, hooks, registers.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
#[cfg(not(target_arch = "x86_64"))]
compile_error!("ramson runs on x86-64; another architecture needs its own folder here");

use core::cell::Cell;

/// State that ramson keeps per thread, in initial-exec thread-local storage. All zero is valid and means "not yet initialised": the first allocation
/// borrows from the countdown and so reaches the slow path.
#[repr(C)]
pub struct Thread {
    /// Bytes left until this thread's next sample. The fast paths know that it comes first.
    pub countdown: Cell<u64>,
    /// Random state; 0 until the thread is initialised.
    pub random: Cell<u64>,
    /// The part of the thread's own stack that has been seen to be readable.
    pub stack_low: Cell<u64>,
    /// One past the thread's own stack; 0 until known.
    pub stack_high: Cell<u64>,
    /// Kernel's thread id; 0 until the first sample.
    pub tid: Cell<u32>,
    /// Scratch that this thread used last.
    pub scratch: Cell<u32>,
    /// Interval that the countdown was drawn with: what a sample's weight comes from.
    pub interval_bytes: Cell<u64>,
    /// Stack pointer of the slow path that is under way; 0 if none is.
    pub parked_at: Cell<u64>,
    /// Bytes of the draw that come after `countdown`.
    pub beyond: Cell<u64>,
    /// See `counter::is_readable`.
    pub asked: Cell<u64>,
    /// Size of the thread's latest sample, the interval that its countdown was drawn with, and 1/p of it.
    pub weighed: [Cell<u64>; 3],
}
