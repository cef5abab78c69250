//! Work that several threads share out among themselves.

use crate::owner::Owner;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};

/// How many inputs of one owner are read at once, so that an input that does not answer does not delay the others.
pub const AT_ONCE: usize = 2;

/// Owners whose inputs are read at once, each by workers of their own.
pub const OWNERS_AT_ONCE: usize = 4;

/// Calls `read` on each item, two at a time, and returns the results in the order of the items.
pub fn each_at_once<T: Sync, R: Send>(all: &[T], read: impl Fn(&T) -> R + Sync) -> Vec<R> {
    on_all(all, AT_ONCE, || (), |(), one| read(one))
}

/// The same of what belongs to processes, for four owners at once: one whose processes do not answer keeps no other owner's waiting.
pub fn each_of_owners<T: Sync, R: Send>(
    all: &[T],
    pid_of: impl Fn(&T) -> u32,
    read: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut owners: Vec<(Option<Owner>, Vec<usize>)> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let owner = Owner::of_process(pid_of(one)).filter(|owner| !owner.is_trusted());
        match owners.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, its)) => its.push(index),
            None => owners.push((owner, vec![index])),
        }
    }
    let of_owner = |(): &mut (), (_, its): &(_, Vec<usize>)| {
        each_at_once(its, |&index| (index, read(&all[index])))
    };
    let read = on_all(&owners, OWNERS_AT_ONCE, || (), of_owner);
    let mut read: Vec<(usize, R)> = read.into_iter().flatten().collect();
    read.sort_unstable_by_key(|&(index, _)| index);
    read.into_iter().map(|(_, result)| result).collect()
}

/// Does `work` on every item, on so many threads; each begins with a `state` of its own and takes the next item that nobody has, so the longest
/// should come first. Results are in the order of the items.
pub fn on_all<T: Sync, S, R: Send>(
    items: &[T],
    threads: usize,
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
    let mut done: Vec<(usize, R)> = scope(|scope| {
        // If no thread can be started, this one does the work.
        let started = |_| Builder::new().spawn_scoped(scope, take_turns).ok();
        let others: Vec<_> = (1..threads.min(items.len())).map_while(started).collect();
        let own = take_turns();
        let joined =
            |other: ScopedJoinHandle<_>| other.join().unwrap_or_else(|it| resume_unwind(it));
        own.into_iter().chain(others.into_iter().flat_map(joined)).collect()
    });
    done.sort_unstable_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn concurrent_reads_keep_order() {
        // Each waits for another one.
        let all = [3, 1, 4, 1, 5, 9];
        let both = Barrier::new(2);
        let read = |number: &u32| {
            both.wait();
            number * 2
        };
        assert_eq!(each_at_once(&all, read), [6, 2, 8, 2, 10, 18]);
        assert_eq!(each_at_once(&[], read), [0; 0]);
    }

    #[test]
    fn owners_are_read_beside_each_other() {
        let mut others = [1501, 1502].map(|user| {
            let user = format!("--reuid={user}");
            let mut command = std::process::Command::new("setpriv");
            command.args([&user, "--clear-groups", "sleep", "100"]).spawn().unwrap()
        });
        let pids = [std::process::id(), others[0].id(), others[1].id()];
        while pids[1..].iter().any(|&pid| Owner::of_process_now(pid) == Some(Owner::of_user(0))) {}
        // All three wait for each other; those of one owner are read two at a time.
        let three = Barrier::new(3);
        let read = |pid: &u32| {
            three.wait();
            *pid
        };
        assert_eq!(each_of_owners(&pids, |&pid| pid, read), pids);
        for other in &mut others {
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }

    #[test]
    fn work_is_done_once_in_order() {
        let items: Vec<usize> = (0..1000).collect();
        let states = AtomicUsize::new(0);
        let count = || _ = states.fetch_add(1, Ordering::Relaxed);
        let doubled = on_all(&items, 8, count, |(), item| 2 * item);
        assert_eq!(doubled, (0..1000).map(|item| 2 * item).collect::<Vec<_>>());
        assert_eq!(states.into_inner(), 8);
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn thread_panic_is_passed_on() {
        let both = Barrier::new(2);
        let work = |(): &mut (), item: &u32| {
            both.wait();
            assert_ne!(*item, 7, "item {item}");
        };
        on_all(&[7, 7], 2, || (), work);
    }
}
