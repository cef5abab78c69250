//! Overlap of two snapshots of one process. A sample that is live in both was taken once and cancels in the difference, value and error.
//! Allocations before the earlier snapshot are part of those that the later one counts (docs/internals/sampling.md).

use ramson_format::Kind;
use ramson_reader::{LiveSample, LookupAddress, Snapshot, Stack};
use std::collections::{HashMap, HashSet};

/// Two snapshots in three parts, which are independent of each other.
pub struct Parts {
    pub old: Snapshot,
    pub new: Snapshot,
    pub shared: Snapshot,
}

/// Splits two snapshots of the same process; `None` if they are of different ones.
pub fn split(old: &Snapshot, new: &Snapshot) -> Option<Parts> {
    if !is_same_process(old, new) {
        return None;
    }
    let mut parts = Parts { old: old.clone(), new: new.clone(), shared: new.clone() };
    let in_old: HashSet<_> = old.live.iter().map(of_live).collect();
    let in_new: HashSet<_> = new.live.iter().map(of_live).collect();
    parts.old.live.retain(|live| !in_new.contains(&of_live(live)));
    parts.new.live.retain(|live| !in_old.contains(&of_live(live)));
    parts.shared.live.retain(|live| in_old.contains(&of_live(live)));
    let mut old_stacks: HashMap<(Kind, u32, &[LookupAddress]), usize> =
        old.stacks.iter().enumerate().map(|(index, stack)| (of_stack(stack), index)).collect();
    // Ranges of a history count from different moments on: neither is part of the other.
    let is_nested = old.header.start_monotonic_ns == new.header.start_monotonic_ns;
    for (index, stack) in new.stacks.iter().enumerate() {
        let new_part = &mut parts.new.stacks[index];
        let shared = &mut parts.shared.stacks[index];
        match old_stacks.remove(&of_stack(stack)) {
            Some(at) if is_nested => share(&mut parts.old.stacks[at], new_part, shared),
            _ => counters(shared).into_iter().for_each(|counter| *counter = 0.0),
        }
    }
    Some(parts)
}

/// Whether both are of one process.
pub fn is_same_process(one: &Snapshot, other: &Snapshot) -> bool {
    one.header.identity() == other.header.identity()
}

/// An address is used again only after its block was freed, so at another time.
fn of_live(live: &LiveSample) -> (u64, u64, u64, u32) {
    (live.address, live.monotonic_ns, live.size, live.tid)
}

/// Returns the key by which two snapshots of a process know the same stack.
pub fn of_stack(stack: &Stack) -> (Kind, u32, &[LookupAddress]) {
    (stack.kind(), stack.epoch, &stack.frames)
}

/// Counters only grow, so the smaller ones are in both, and their variance is part of the larger ones'.
fn share(old: &mut Stack, new: &mut Stack, shared: &mut Stack) {
    let (less, more) = if old.alloc_objects <= new.alloc_objects { (old, new) } else { (new, old) };
    let pairs = counters(less).into_iter().zip(counters(more));
    for ((less, more), shared) in pairs.zip(counters(shared)) {
        *shared = *less;
        *more = (*more - *less).max(0.0);
        *less = 0.0;
    }
}

/// With their variances.
fn counters(stack: &mut Stack) -> [&mut f64; 4] {
    [
        &mut stack.alloc_objects,
        &mut stack.alloc_space,
        &mut stack.alloc_objects_variance,
        &mut stack.alloc_space_variance,
    ]
}

#[cfg(test)]
#[path = "overlap_tests.rs"]
mod tests;
