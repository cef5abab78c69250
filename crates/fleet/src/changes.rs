//! What has changed in a process between two looks at its profile, as counts of samples: by stack, minute, size, age and sampling
//! interval. Bytes, objects and both variances follow from these by arithmetic, and add up.
//!
//! What is live at a look is known exactly, so the sum of all counts is what is live. Of what was allocated and freed between two looks, the
//! number, the sum of the sizes and the lifetimes are exact, and `sizes` chooses sizes for them.

use crate::sizes::{Sizes, fitting_interval, objects, with_sums};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_format::{Kind, LIFETIME_BUCKETS, lifetime_bucket, stack_hash};
use ramson_reader::{LiveSample, Snapshot, Stack};
use ramson_source::go::Earlier;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::ops::RangeInclusive;

/// What a count is of, in the column `age`.
pub mod age {
    /// Was live already: when the day began, or when a process of an earlier day was first looked at.
    pub const STATE: u8 = 0;
    /// Allocated in the minute.
    pub const ALLOCATED: u8 = 1;
    /// Freed in the minute, with a lifetime of the profile's first bucket; the next ones follow.
    pub const FREED: u8 = 2;
    /// Live when the process ended, with an age of the profile's first bucket; the next ones follow.
    pub const ENDED: u8 = 66;
}

/// Short-lived samples of a process that are counted at one look; the others are at later ones. A forged profile may claim any number.
const MOST_SHORT_LIVED: u64 = 1 << 18;
/// The sizes of these samples have no larger sum.
const MOST_SUM: f64 = (1_u64 << 60) as f64;
const NS_PER_MINUTE: u64 = 60_000_000_000;

/// Number of a stack in one process, the same at each look.
pub type StackKey = u64;

/// What samples have in common that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The stack that allocated them.
    pub stack: StackKey,
    /// Since 1970.
    pub minute: u32,
    /// Bytes that were requested.
    pub size: u64,
    /// See `age`.
    pub age: u8,
    /// Sampling interval in bytes with which they were taken.
    pub interval: u64,
}

/// Samples by what they have in common.
pub type Counts = BTreeMap<Group, u64>;

/// When a profile was read.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// On the clock of the profile's times.
    pub monotonic_ns: u64,
    /// The same moment; nanoseconds since 1970.
    pub unix_ns: u64,
}

/// What is counted of a process so far: at first nothing, of one that is known from its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Of the latest look; 0: there was none.
    monotonic_ns: u64,
    /// The same moment; nanoseconds since 1970.
    unix_ns: u64,
    /// Sampling interval in force then.
    interval: u64,
    /// Ascending.
    stacks: Vec<(StackKey, Sums)>,
    /// Frees by stacks and lifetimes, ascending: most stacks have few.
    lifetimes: Vec<((StackKey, u8), u64)>,
    /// By address and time: an address is used again only after its block was freed.
    live: HashMap<(u64, u64), Block>,
}

/// How what is counted changes at a look. To apply it twice in a row does the same as once.
#[derive(Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct Step {
    monotonic_ns: u64,
    unix_ns: u64,
    interval: u64,
    /// Those that are not as before.
    stacks: Vec<(StackKey, Sums)>,
    lifetimes: Vec<((StackKey, u8), u64)>,
    born: Vec<((u64, u64), Block)>,
    gone: HashSet<(u64, u64)>,
}

/// Counters of a stack, as far as they are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
struct Sums {
    allocated: u64,
    bytes: u64,
    objects: f64,
    freed: u64,
}

/// A live sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
struct Block {
    stack: StackKey,
    size: u64,
    interval: u64,
    inverse_probability: f64,
}

fn key(stack: &Stack) -> StackKey {
    stack_hash(stack.kind(), stack.epoch, stack.frames.iter().copied())
}

/// A snapshot with the keys of its stacks.
pub struct Keyed<'a> {
    snapshot: &'a Snapshot,
    /// Of all stacks.
    keys: Vec<StackKey>,
    /// Indices of the heap's stacks that have samples, by their keys.
    of_heap: Vec<usize>,
}

impl<'a> Keyed<'a> {
    /// Finds the keys.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let keys: Vec<StackKey> = snapshot.stacks.iter().map(key).collect();
        let mut is_live = vec![false; keys.len()];
        snapshot.live.iter().for_each(|sample| is_live[sample.stack] = true);
        let has_samples = |&index: &usize| {
            let stack = &snapshot.stacks[index];
            stack.kind() == Kind::Heap && (stack.sampled_alloc_objects > 0 || is_live[index])
        };
        let mut of_heap: Vec<usize> = (0..keys.len()).filter(has_samples).collect();
        of_heap.sort_unstable_by_key(|&index| keys[index]);
        // A stack that is forged to have another one's key is not counted.
        of_heap.dedup_by_key(|index| keys[*index]);
        Self { snapshot, keys, of_heap }
    }

    /// The heap's stacks that have samples and whose keys are not among these, which ascend.
    pub fn others_than(&self, known: impl Iterator<Item = StackKey>) -> Vec<(StackKey, &'a Stack)> {
        let mut known = known.peekable();
        let all = self.of_heap.iter().map(|&index| (self.keys[index], index));
        let is_other = |&(key, _): &(StackKey, usize)| {
            while known.next_if(|&known| known < key).is_some() {}
            known.peek() != Some(&key)
        };
        all.filter(is_other).map(|(key, index)| (key, &self.snapshot.stacks[index])).collect()
    }
}

impl Counted {
    /// Takes a process up that has been recorded for some time: what is live is its state, and what it has freed is not counted.
    pub fn taken_up(now: &Keyed, look: Look) -> (Step, Counts) {
        let Look { monotonic_ns, unix_ns } = look;
        let interval = now.snapshot.header.interval_bytes;
        let mut counted =
            Self { monotonic_ns, unix_ns, interval, live: live(now), ..Self::default() };
        let sums = |&index: &usize| {
            let stack = &now.snapshot.stacks[index];
            let sums = Sums {
                allocated: stack.sampled_alloc_objects,
                bytes: stack.sampled_alloc_bytes,
                objects: number(stack.alloc_objects),
                freed: stack.sampled_freed_objects,
            };
            (now.keys[index], sums)
        };
        counted.stacks = now.of_heap.iter().map(sums).collect();
        let lifetimes = |&index: &usize| some(now.keys[index], &now.snapshot.stacks[index]);
        counted.lifetimes = now.of_heap.iter().flat_map(lifetimes).collect();
        let state = counted.state(minute(look.unix_ns));
        (counted.whole(), state)
    }

    /// The step from nothing.
    pub fn whole(self) -> Step {
        let Self { monotonic_ns, unix_ns, interval, stacks, lifetimes, live } = self;
        let born = live.into_iter().collect();
        Step { monotonic_ns, unix_ns, interval, stacks, lifetimes, born, gone: HashSet::new() }
    }

    /// Goes on by a step.
    pub fn apply(&mut self, step: Step) {
        (self.monotonic_ns, self.unix_ns, self.interval) =
            (step.monotonic_ns, step.unix_ns, step.interval);
        put(&mut self.stacks, step.stacks);
        put(&mut self.lifetimes, step.lifetimes);
        self.live.retain(|place, _| !step.gone.contains(place));
        self.live.extend(step.born);
    }

    /// When it was looked at last.
    pub fn latest(&self) -> Look {
        Look { monotonic_ns: self.monotonic_ns, unix_ns: self.unix_ns }
    }

    /// Returns what is known of a Go program's samples, from which the next look goes on.
    pub fn of_go(&self) -> Earlier {
        let mut lifetimes: HashMap<u64, [u64; LIFETIME_BUCKETS]> = HashMap::new();
        for &((stack, bucket), count) in &self.lifetimes {
            if let Some(known) = lifetimes.entry(stack).or_default().get_mut(usize::from(bucket)) {
                *known = count;
            }
        }
        Earlier {
            at_ns: self.monotonic_ns,
            samples: self.live.keys().copied().collect(),
            lifetimes,
        }
    }

    /// What is live, as the state of a minute.
    fn state(&self, minute: u32) -> Counts {
        let mut counts = Counts::new();
        self.live.values().for_each(|block| block.count(&mut counts, minute, age::STATE));
        counts
    }

    /// Counts what has changed since the latest look. A new day begins with the state.
    pub fn changes(&self, now: &Keyed, look: Look) -> (Step, Counts) {
        let Look { monotonic_ns, unix_ns } = look;
        let interval = now.snapshot.header.interval_bytes;
        let mut step = Step { monotonic_ns, unix_ns, interval, ..Step::default() };
        let mut counts = Counts::new();
        let midnight = (day(look.unix_ns) * 24 * 60) as u32;
        if self.monotonic_ns > 0 && day(look.unix_ns) > day(self.unix_ns) {
            counts = self.state(midnight);
        }
        let after = live(now);
        let mut changed: HashMap<StackKey, Changed> = HashMap::new();
        for (place, block) in after.iter().filter(|(place, _)| !self.live.contains_key(place)) {
            let age_ns = look.monotonic_ns.saturating_sub(place.1);
            let allocated_ns = look.unix_ns.saturating_sub(age_ns);
            // The state of a day does not have what was allocated between the last look before it and its beginning.
            block.count(&mut counts, minute(allocated_ns).max(midnight), age::ALLOCATED);
            changed.entry(block.stack).or_default().born.push(*block);
            step.born.push((*place, *block));
        }
        for (place, block) in self.live.iter().filter(|(place, _)| !after.contains_key(place)) {
            changed.entry(block.stack).or_default().gone.push((place.1, *block));
            step.gone.insert(*place);
        }
        let mut window = Window {
            from_ns: self.monotonic_ns,
            look,
            interval: self.interval.max(interval),
            short_lived_left: MOST_SHORT_LIVED,
        };
        let none = Sums::default();
        let mut known = self.stacks.iter().peekable();
        for &index in &now.of_heap {
            let (key, stack) = (now.keys[index], &now.snapshot.stacks[index]);
            while known.next_if(|(known, _)| *known < key).is_some() {}
            let sums = known.next_if(|(known, _)| *known == key).map_or(&none, |(_, sums)| sums);
            let changed = changed.remove(&key).unwrap_or_default();
            if !changed.is_nothing() || !sums.has_all_of(stack) {
                let mut sums = *sums;
                let frees = self.new_frees(key, stack);
                sums.count(stack, key, changed, &frees, &mut window, &mut counts);
                step.stacks.push((key, sums));
                step.lifetimes.extend(some(key, stack));
            }
        }
        (step, counts)
    }

    /// Frees of a stack by lifetime that are not counted yet.
    fn new_frees(&self, key: StackKey, stack: &Stack) -> [u64; LIFETIME_BUCKETS] {
        let from = self.lifetimes.partition_point(|((of, _), _)| *of < key);
        let counted = self.lifetimes[from..].iter().take_while(|((of, _), _)| *of == key);
        let mut new = stack.lifetimes;
        for ((_, bucket), counted) in counted {
            let new = new.get_mut(usize::from(*bucket));
            new.into_iter().for_each(|new| *new = new.saturating_sub(*counted));
        }
        new
    }

    /// Counts what is live as ended, with its age.
    pub fn end(&mut self, look: Look) -> Counts {
        let mut counts = Counts::new();
        for (place, block) in self.live.drain() {
            let bucket = lifetime_bucket(look.monotonic_ns.saturating_sub(place.1));
            block.count(&mut counts, minute(look.unix_ns), age::ENDED + bucket as u8);
        }
        counts
    }
}

/// Live samples of a stack that have come and gone since the latest look.
#[derive(Default)]
struct Changed {
    born: Vec<Block>,
    /// When they were allocated, too.
    gone: Vec<(u64, Block)>,
}

impl Changed {
    fn is_nothing(&self) -> bool {
        self.born.is_empty() && self.gone.is_empty()
    }
}

/// The time between two looks.
struct Window {
    from_ns: u64,
    look: Look,
    /// The larger one of those in force at the looks: in between it may have been any.
    interval: u64,
    /// Short-lived samples that may still be counted at it.
    short_lived_left: u64,
}

impl Sums {
    /// Whether nothing of the stack is left to count.
    fn has_all_of(&self, stack: &Stack) -> bool {
        (self.allocated, self.freed) == (stack.sampled_alloc_objects, stack.sampled_freed_objects)
    }

    /// Counts what the stack has freed, and what it has allocated and freed within the window. Counters that are ahead of what was
    /// found live, since the process runs while they are read, are counted at a later look.
    fn count(
        &mut self,
        stack: &Stack,
        key: StackKey,
        changed: Changed,
        frees: &[u64; LIFETIME_BUCKETS],
        window: &mut Window,
        counts: &mut Counts,
    ) {
        let to_ns = window.look.monotonic_ns;
        let minute = minute(window.look.unix_ns);
        let born = changed.born.len() as u64;
        self.allocated += born;
        self.bytes += changed.born.iter().map(|block| block.size).sum::<u64>();
        let born_objects = changed.born.iter().map(|block| block.inverse_probability).sum::<f64>();
        self.objects = number(self.objects + born_objects);
        self.freed += changed.gone.len() as u64;
        let mut freed = Vec::new();
        for (allocated_ns, block) in changed.gone {
            let least_ns = window.from_ns.max(allocated_ns) - allocated_ns;
            let most_ns = to_ns.saturating_sub(allocated_ns);
            freed.push((lifetime_bucket(least_ns)..=lifetime_bucket(most_ns), block));
        }
        let longest = lifetime_bucket(to_ns.saturating_sub(window.from_ns));
        let (sizes, interval) = self.take_short_lived(stack, window);
        for (size, count) in sizes {
            let block = Block { stack: key, size, interval, ..Block::default() };
            for _ in 0..count {
                block.count(counts, minute, age::ALLOCATED);
                freed.push((0..=longest, block));
            }
        }
        let ranges: Vec<_> = freed.iter().map(|(range, _)| range.clone()).collect();
        let buckets = assigned(&ranges, frees);
        for ((_, block), bucket) in freed.into_iter().zip(buckets) {
            block.count(counts, minute, age::FREED + bucket as u8);
        }
    }

    /// Takes the samples that were allocated and freed since the latest look, by sizes that have their sums, with an interval.
    fn take_short_lived(&mut self, stack: &Stack, window: &mut Window) -> (Sizes, u64) {
        let allocated = stack.sampled_alloc_objects.saturating_sub(self.allocated);
        let both = allocated
            .min(stack.sampled_freed_objects.saturating_sub(self.freed))
            .min(window.short_lived_left);
        if both == 0 {
            return (Sizes::new(), window.interval);
        }
        // The counters of what is not freed yet, or not found yet, are a part of the difference.
        let share = both as f64 / allocated as f64;
        let bytes = stack.sampled_alloc_bytes.saturating_sub(self.bytes) as f64 * share;
        let bytes = bytes.min(MOST_SUM);
        let objects = number((stack.alloc_objects - self.objects) * share);
        window.short_lived_left -= both;
        self.allocated += both;
        self.freed += both;
        self.bytes += bytes.round() as u64;
        self.objects = number(self.objects + objects);
        let sum = bytes.round() as u64;
        let interval = fitting_interval(both, sum, objects, window.interval);
        (with_sums(both, sum, objects, interval), interval)
    }
}

/// A bucket for each range, so that each bucket is taken as often as `counts` says: of the ranges that have begun, the one that ends first
/// takes it. A range for which none is left gets its last bucket.
fn assigned(ranges: &[RangeInclusive<usize>], counts: &[u64]) -> Vec<usize> {
    let mut buckets: Vec<usize> = ranges.iter().map(|range| *range.end()).collect();
    let mut begun = BinaryHeap::new();
    for (bucket, &count) in counts.iter().enumerate() {
        let beginning = ranges.iter().enumerate().filter(|(_, range)| *range.start() == bucket);
        begun.extend(beginning.map(|(index, range)| Reverse((*range.end(), index))));
        let mut left = count;
        while let Some(&Reverse((end, index))) = begun.peek() {
            if end >= bucket && left == 0 {
                break;
            }
            begun.pop();
            if end >= bucket {
                buckets[index] = bucket;
                left -= 1;
            }
        }
    }
    buckets
}

impl Block {
    fn count(&self, counts: &mut Counts, minute: u32, age: u8) {
        let Self { stack, size, interval, .. } = *self;
        *counts.entry(Group { stack, minute, size, age, interval }).or_default() += 1;
    }
}

fn minute(unix_ns: u64) -> u32 {
    (unix_ns / NS_PER_MINUTE) as u32
}

fn day(unix_ns: u64) -> u64 {
    unix_ns / NS_PER_MINUTE / (24 * 60)
}

/// A forged profile may have what is none.
fn number(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// The lifetimes of which a stack has some.
fn some(key: StackKey, stack: &Stack) -> impl Iterator<Item = ((StackKey, u8), u64)> {
    let some = stack.lifetimes.iter().zip(0_u8..).filter(|(count, _)| **count > 0);
    some.map(move |(&count, bucket)| ((key, bucket), count))
}

/// Puts values into a map that is kept as a list, which ascends, and so do they.
pub fn put<K: Ord, V>(map: &mut Vec<(K, V)>, values: Vec<(K, V)>) {
    let known = map.len();
    for (key, value) in values {
        match map[..known].binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(at) => map[at].1 = value,
            Err(_) => map.push((key, value)),
        }
    }
    if map.len() > known {
        map.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
}

/// The live samples by address and time.
fn live(keyed: &Keyed) -> HashMap<(u64, u64), Block> {
    let snapshot = keyed.snapshot;
    let now = snapshot.header.interval_bytes;
    let block = |sample: &LiveSample| Block {
        stack: keyed.keys[sample.stack],
        size: sample.size,
        interval: interval(sample, now),
        inverse_probability: number(sample.inverse_probability),
    };
    snapshot
        .live
        .iter()
        .map(|sample| ((sample.address, sample.monotonic_ns), block(sample)))
        .collect()
}

/// The sampling interval with which a sample was taken: the one in force, unless its probability is another one's.
fn interval(sample: &LiveSample, in_force: u64) -> u64 {
    let weight = sample.inverse_probability;
    let is_it = (objects(sample.size, in_force) / weight - 1.0).abs() < 1e-9;
    if is_it || weight <= 1.0 {
        return if weight <= 1.0 && !is_it { 1 } else { in_force };
    }
    // 1/p = 1 / (1 − e^(−s/T)), solved for T.
    (-(sample.size as f64) / (-1.0 / weight).ln_1p()).round() as u64
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
