//! Orders to this process while it runs: to sample at another interval, or not at all. Whoever may trace it writes the words of `CONTROL` from
//! outside. Slow paths look there, so a thread knows after at most `LOOK_BYTES` of its own allocation.

use crate::record::Recorder;
use core::sync::atomic::Ordering::*;
use ramson_format::atomic::AtomicU64;
use ramson_format::control::{
    Control, DIRECTORY_WORDS, LAYOUT, ORDER_WORDS, Orders, REQUEST_WORDS,
};

/// See `Control`. On pages that a forked child has a copy of: orders hold for it, too.
#[unsafe(export_name = "ramson_control")]
pub static CONTROL: Control = Control {
    layout: AtomicU64::new(LAYOUT),
    orders: [const { AtomicU64::new(0) }; ORDER_WORDS],
    request: [const { AtomicU64::new(0) }; REQUEST_WORDS],
    directory: [const { AtomicU64::new(0) }; DIRECTORY_WORDS],
    outcome: AtomicU64::new(0),
    is_attached: AtomicU64::new(0),
    patched: AtomicU64::new(0),
    follows: AtomicU64::new(0),
};

/// Whether this came into the running program.
pub fn is_attached() -> bool {
    CONTROL.is_attached.load(Relaxed) != 0
}

/// The latest orders that were whole and in range.
static IN_FORCE: [AtomicU64; ORDER_WORDS] = [const { AtomicU64::new(0) }; ORDER_WORDS];

/// Whether there are orders that nobody has taken yet.
#[inline]
pub fn are_new() -> bool {
    let last = ORDER_WORDS - 1;
    CONTROL.orders[last].load(Acquire) != IN_FORCE[last].load(Acquire)
}

/// Whether there ever were orders.
#[inline]
pub fn are_given() -> bool {
    are_new() || IN_FORCE[ORDER_WORDS - 1].load(Acquire) != 0
}

/// Takes what is there, if it is whole: of one that is being written, the next look takes more.
#[cold]
pub fn take() -> Option<Orders> {
    let words = CONTROL.orders.each_ref().map(|word| word.load(Acquire));
    let orders = Orders::of_words(&words)?;
    IN_FORCE.iter().zip(words).for_each(|(to, word)| to.store(word, Release));
    Some(orders)
}

/// Those in force; `None` if none were given.
#[inline]
pub fn in_force() -> Option<Orders> {
    if IN_FORCE[ORDER_WORDS - 1].load(Acquire) == 0 {
        return None;
    }
    Orders::of_words(&IN_FORCE.each_ref().map(|word| word.load(Relaxed)))
}

/// Whether no samples are taken by these orders.
pub fn is_over(orders: &Orders, recorder: &Recorder) -> bool {
    let until_ns = orders.until_monotonic_ns;
    orders.is_off || until_ns != 0 && recorder.now_ns() >= until_ns
}

/// The sampling interval: as configured, and as in force now.
#[derive(Clone, Copy)]
pub struct Interval {
    pub configured_bytes: u64,
    pub bytes: u64,
}

/// How a thread is to go on.
pub enum Pace {
    /// Nothing is recorded any more.
    Off,
    /// No samples are taken for the time being.
    Paused,
    /// Samples are taken.
    Sampling(Interval),
}
