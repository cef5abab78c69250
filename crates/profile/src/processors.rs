//! Two things at the same time.

use std::panic::resume_unwind;
use std::thread::{self, Builder};

/// The results of both; `one` runs on a thread of its own if `is_much` and one can be started, else first.
pub(crate) fn both<A: Send, B>(
    is_much: bool,
    one: impl Fn() -> A + Sync,
    other: impl FnOnce() -> B,
) -> (A, B) {
    thread::scope(|scope| {
        let started = is_much.then(|| Builder::new().spawn_scoped(scope, &one).ok()).flatten();
        match started {
            Some(thread) => {
                let other = other();
                (thread.join().unwrap_or_else(|panic| resume_unwind(panic)), other)
            }
            None => (one(), other()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_results_are_returned() {
        for is_much in [false, true] {
            assert_eq!(both(is_much, || 1, || 2), (1, 2));
        }
    }
}
