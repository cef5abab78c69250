//! Work shared out among the processors.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// More threads would wait for memory, and each holds what it has parsed.
pub(crate) const MAX_THREADS: usize = 8;

/// Does `work` on every item, on as many threads as there are processors, but `most_threads`; each thread begins with a
/// `state` of its own and takes the next item that nobody has, so the longest should come first. Results are in the order
/// of the items.
pub(crate) fn on_all<T: Sync, S, R: Send>(
    items: &[T],
    most_threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    // Relaxed: only the number itself is shared; results are handed over by joining the threads.
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let mut state = state();
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(&mut state, item)));
        }
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let helpers = processors.min(most_threads).min(items.len()).saturating_sub(1);
    let mut done = thread::scope(|scope| {
        // Where no thread can be started, this one does the work.
        let started: Vec<_> = (0..helpers)
            .map_while(|_| Builder::new().spawn_scoped(scope, take_turns).ok())
            .collect();
        let mut done = take_turns();
        done.extend(started.into_iter().flat_map(|thread| thread.join().unwrap_or_default()));
        done
    });
    done.sort_unstable_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_results_keep_their_order() {
        let items: Vec<usize> = (0..1000).collect();
        let worked = AtomicUsize::new(0);
        let doubled = on_all(
            &items,
            MAX_THREADS,
            || (),
            |(), item| {
                worked.fetch_add(1, Ordering::Relaxed);
                2 * item
            },
        );
        assert_eq!(worked.into_inner(), 1000);
        assert_eq!(doubled, (0..1000).map(|item| 2 * item).collect::<Vec<_>>());
        assert_eq!(on_all(&[], 1, || (), |(), item: &usize| *item), Vec::<usize>::new());
    }
}
