//! What has changed in a process between two looks at its profile, as counts of samples: by stack, minute, size, age and sampling
//! interval. Bytes, objects and both variances follow from these by arithmetic, and add up.
//!
//! What is live at a look is known exactly, so the sum of all counts is what is live. Of what was allocated and freed between two looks, the
//! number, the sum of the sizes and the lifetimes are exact, and `sizes` chooses sizes for them.

use crate::sizes::{Sizes, objects, with_sums};
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_format::{Kind, LIFETIME_BUCKETS, lifetime_bucket, stack_hash};
use ramson_reader::{LiveSample, Snapshot, Stack};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{self, Read, Write};
use std::mem;
use std::ops::RangeInclusive;

/// What a count is of, in the column `age`.
pub mod age {
    /// Was live already: when the day began, or when the process was first looked at.
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
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Counted {
    /// Of the latest look; 0: there was none.
    monotonic_ns: u64,
    /// The same moment; nanoseconds since 1970.
    unix_ns: u64,
    stacks: HashMap<StackKey, Sums>,
    /// By address and time: an address is used again only after its block was freed.
    live: HashMap<(u64, u64), Block>,
}

/// Counters of a stack, as far as they are counted.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
struct Sums {
    allocated: u64,
    bytes: u64,
    objects: f64,
    freed: u64,
    #[borsh(serialize_with = "write_sparse", deserialize_with = "read_sparse")]
    lifetimes: [u64; LIFETIME_BUCKETS],
}

/// Most stacks have few lifetimes.
fn write_sparse(lifetimes: &[u64; LIFETIME_BUCKETS], out: &mut impl Write) -> io::Result<()> {
    let known = lifetimes.iter().zip(0_u8..).filter(|(count, _)| **count > 0);
    let known: Vec<(u8, u64)> = known.map(|(&count, bucket)| (bucket, count)).collect();
    known.serialize(out)
}

fn read_sparse(from: &mut impl Read) -> io::Result<[u64; LIFETIME_BUCKETS]> {
    let mut lifetimes = [0; LIFETIME_BUCKETS];
    for (bucket, count) in Vec::<(u8, u64)>::deserialize_reader(from)? {
        *lifetimes.get_mut(usize::from(bucket)).ok_or(io::ErrorKind::InvalidData)? = count;
    }
    Ok(lifetimes)
}

/// A live sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
struct Block {
    stack: StackKey,
    size: u64,
    interval: u64,
    inverse_probability: f64,
}

/// The key of a stack.
pub fn key(stack: &Stack) -> StackKey {
    stack_hash(stack.kind(), stack.epoch, stack.frames.iter().copied())
}

impl Counted {
    /// Takes a process up that has been recorded for some time: what is live is its state, and what it has freed is not counted.
    pub fn taken_up(now: &Snapshot, look: Look) -> (Self, Counts) {
        let Look { monotonic_ns, unix_ns } = look;
        let mut counted = Self { monotonic_ns, unix_ns, ..Self::default() };
        counted.live = live(now);
        for stack in heap(now) {
            *counted.stacks.entry(key(stack)).or_default() = Sums {
                allocated: stack.sampled_alloc_objects,
                bytes: stack.sampled_alloc_bytes,
                objects: stack.alloc_objects,
                freed: stack.sampled_freed_objects,
                lifetimes: stack.lifetimes,
            };
        }
        let state = counted.state(minute(look.unix_ns));
        (counted, state)
    }

    /// When it was looked at last.
    pub fn latest(&self) -> Look {
        Look { monotonic_ns: self.monotonic_ns, unix_ns: self.unix_ns }
    }

    /// What is live, as the state of a minute.
    fn state(&self, minute: u32) -> Counts {
        let mut counts = Counts::new();
        self.live.values().for_each(|block| block.count(&mut counts, minute, age::STATE));
        counts
    }

    /// Counts what has changed since the latest look. A new day begins with the state.
    pub fn changes(&mut self, now: &Snapshot, look: Look) -> Counts {
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
        }
        for (place, block) in self.live.iter().filter(|(place, _)| !after.contains_key(place)) {
            changed.entry(block.stack).or_default().gone.push((place.1, *block));
        }
        let mut window = Window {
            from_ns: self.monotonic_ns,
            look,
            interval: now.header.interval_bytes,
            short_lived_left: MOST_SHORT_LIVED,
        };
        for stack in heap(now) {
            let key = key(stack);
            let changed = changed.remove(&key).unwrap_or_default();
            let sums = match self.stacks.entry(key) {
                Entry::Vacant(_) if changed.is_nothing() && stack.sampled_alloc_objects == 0 => {
                    continue;
                }
                entry => entry.or_default(),
            };
            sums.count(stack, key, changed, &mut window, &mut counts);
        }
        self.live = after;
        self.monotonic_ns = look.monotonic_ns;
        self.unix_ns = look.unix_ns;
        counts
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
    /// In force at the second look.
    interval: u64,
    /// Short-lived samples that may still be counted at it.
    short_lived_left: u64,
}

impl Sums {
    /// Counts what the stack has freed, and what it has allocated and freed within the window. Counters that are ahead of what was
    /// found live, since the process runs while they are read, are counted at a later look.
    fn count(
        &mut self,
        stack: &Stack,
        key: StackKey,
        changed: Changed,
        window: &mut Window,
        counts: &mut Counts,
    ) {
        let to_ns = window.look.monotonic_ns;
        let minute = minute(window.look.unix_ns);
        let born = changed.born.len() as u64;
        self.allocated += born;
        self.bytes += changed.born.iter().map(|block| block.size).sum::<u64>();
        self.objects += changed.born.iter().map(|block| block.inverse_probability).sum::<f64>();
        self.freed += changed.gone.len() as u64;
        let mut freed = Vec::new();
        for (allocated_ns, block) in changed.gone {
            let least_ns = window.from_ns.max(allocated_ns) - allocated_ns;
            let most_ns = to_ns.saturating_sub(allocated_ns);
            freed.push((lifetime_bucket(least_ns)..=lifetime_bucket(most_ns), block));
        }
        let longest = lifetime_bucket(to_ns.saturating_sub(window.from_ns));
        for (size, count) in self.take_short_lived(stack, window) {
            let block = Block { stack: key, size, interval: window.interval, ..Block::default() };
            for _ in 0..count {
                block.count(counts, minute, age::ALLOCATED);
                freed.push((0..=longest, block));
            }
        }
        let lifetimes = stack.lifetimes.iter().zip(&mut self.lifetimes);
        let new = lifetimes.map(|(&now, counted)| now.saturating_sub(mem::replace(counted, now)));
        let ranges: Vec<_> = freed.iter().map(|(range, _)| range.clone()).collect();
        let buckets = assigned(&ranges, &new.collect::<Vec<u64>>());
        for ((_, block), bucket) in freed.into_iter().zip(buckets) {
            block.count(counts, minute, age::FREED + bucket as u8);
        }
    }

    /// Takes the samples that were allocated and freed since the latest look, by sizes that have their sums.
    fn take_short_lived(&mut self, stack: &Stack, window: &mut Window) -> Sizes {
        let allocated = stack.sampled_alloc_objects.saturating_sub(self.allocated);
        let both = allocated
            .min(stack.sampled_freed_objects.saturating_sub(self.freed))
            .min(window.short_lived_left);
        if both == 0 {
            return Sizes::new();
        }
        // The counters of what is not freed yet, or not found yet, are a part of the difference.
        let share = both as f64 / allocated as f64;
        let bytes = stack.sampled_alloc_bytes.saturating_sub(self.bytes) as f64 * share;
        let bytes = bytes.min(MOST_SUM);
        let objects = (stack.alloc_objects - self.objects) * share;
        window.short_lived_left -= both;
        self.allocated += both;
        self.freed += both;
        self.bytes += bytes.round() as u64;
        self.objects += objects;
        with_sums(both, bytes.round() as u64, objects, window.interval)
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

fn heap(snapshot: &Snapshot) -> impl Iterator<Item = &Stack> {
    snapshot.stacks.iter().filter(|stack| stack.kind() == Kind::Heap)
}

/// The live samples by address and time.
fn live(snapshot: &Snapshot) -> HashMap<(u64, u64), Block> {
    let keys: Vec<StackKey> = snapshot.stacks.iter().map(key).collect();
    let now = snapshot.header.interval_bytes;
    let block = |sample: &LiveSample| Block {
        stack: keys[sample.stack],
        size: sample.size,
        interval: interval(sample, now),
        inverse_probability: sample.inverse_probability,
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
