//! Several inputs at once: one that keeps its helper waiting keeps no other one waiting.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};

/// So many.
pub const AT_ONCE: usize = 2;

/// What `read` makes of each, in their order.
pub fn each_at_once<T: Sync, R: Send>(all: &[T], read: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(all.iter().enumerate());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(take).map(|(index, one)| (index, read(one))).collect();
    let mut done: Vec<(usize, R)> = scope(|scope| {
        // Where no thread can be started, this one reads them all.
        let started = |_| Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..AT_ONCE.min(all.len())).map_while(started).collect();
        let own: Vec<_> = work();
        let joined =
            |other: ScopedJoinHandle<_>| other.join().unwrap_or_else(|it| resume_unwind(it));
        let others = others.into_iter().flat_map(joined);
        own.into_iter().chain(others).collect()
    });
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, read)| read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn two_are_read_at_once_and_come_in_their_order() {
        // Each waits for another one.
        let (all, both) = ([3, 1, 4, 1, 5, 9], Barrier::new(2));
        let read = |number: &u32| {
            both.wait();
            number * 2
        };
        assert_eq!(each_at_once(&all, read), [6, 2, 8, 2, 10, 18]);
        assert_eq!(each_at_once(&[], read), [0; 0]);
    }
}
