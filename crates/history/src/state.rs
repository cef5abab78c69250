//! Parts of a snapshot that change from one moment to the next, in the order in which they are kept: counters of stacks by their
//! number in the process, blocks by their time, and the header's numbers.
//!
//! Freed memory is not kept: it was allocated and is not live.

use ramson_format::live_flags::EXTENT;
use ramson_format::{Health, LIFETIME_BUCKETS, address_of, family_of};
use ramson_profile::{Estimate, SampleUnit};
use ramson_reader::{Extent, Header, LiveSample, Roundings, Snapshot, Stack};

/// Counters of one stack, since the start of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    pub sampled_objects: u64,
    pub sampled_bytes: u64,
    /// Weighted: objects, bytes, and the variances of both.
    pub weighted: [f64; 4],
    pub lifetimes: [u64; LIFETIME_BUCKETS],
}

/// A live sample, or an extent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Block {
    pub monotonic_ns: u64,
    /// As in the live table.
    pub key: u64,
    pub size: u64,
    pub stack: u32,
    pub tid: u32,
    pub inverse_probability: f32,
    /// `live_flags` of the profile.
    pub flags: u32,
}

/// One moment of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// In the order of `walk_numbers`.
    pub numbers: Vec<u64>,
    /// By number of the stack.
    pub counters: Vec<Counters>,
    /// By time, then key, then flags.
    pub blocks: Vec<Block>,
}

/// Index of the sampling interval in `State::numbers`.
const INTERVAL: usize = 2;
/// Index of the last time that the process wrote there.
const LAST: usize = 3;

/// The header's numbers that change while a process runs, in the order in which they are kept: becomes what `each` makes of them.
fn walk_numbers(header: &mut Header, mut each: impl FnMut(u64) -> u64) {
    header.state = each(header.state.into()) as u32;
    header.off_reason = each(header.off_reason.into()) as u32;
    header.interval_bytes = each(header.interval_bytes);
    header.last_monotonic_ns = each(header.last_monotonic_ns);
    header.exit_status = each(header.exit_status as u32 as u64) as u32 as i32;
    header.flags = each(header.flags.into()) as u32;
    header.interval_changes = each(header.interval_changes.into()) as u32;
    header.last_cycles = each(header.last_cycles);
    header.last_cycles_ns = each(header.last_cycles_ns);
    header.cpu_ns = each(header.cpu_ns);
    header.committed_bytes = each(header.committed_bytes);
    header.health.iter_mut().for_each(|count| *count = each(*count));
}

/// Puts them back.
pub fn set_numbers(header: &mut Header, numbers: &[u64]) {
    header.health = vec![0; ramson_format::HEALTH.len()];
    let mut rest = numbers.iter().copied();
    walk_numbers(header, |_| rest.next().unwrap_or(0));
}

impl State {
    /// State of a snapshot whose stacks have these numbers in the process.
    pub fn of(snapshot: &Snapshot, numbers: &[u32]) -> Self {
        let known = numbers.iter().map(|&number| number as usize + 1).max().unwrap_or(0);
        let mut counters = vec![Counters::default(); known];
        for (stack, &number) in snapshot.stacks.iter().zip(numbers) {
            counters[number as usize] = Counters::of(stack);
        }
        let live = snapshot.live.iter().map(|live| (*live, 0));
        let extents = snapshot.extents.iter().map(|extent| extent.to_sample());
        let block = |(sample, flags): (LiveSample, u32)| Block {
            monotonic_ns: sample.monotonic_ns,
            key: sample.key(),
            size: sample.size,
            stack: numbers[sample.stack],
            tid: sample.tid,
            inverse_probability: sample.inverse_probability as f32,
            flags,
        };
        let mut blocks: Vec<Block> = live.chain(extents).map(block).collect();
        blocks.sort_unstable_by_key(Block::key);
        let mut numbers = Vec::new();
        walk_numbers(&mut snapshot.header.clone(), |number| {
            numbers.push(number);
            number
        });
        Self { numbers, counters, blocks }
    }

    /// Mean bytes between samples.
    pub fn interval_bytes(&self) -> u64 {
        self.numbers.get(INTERVAL).copied().unwrap_or(0)
    }

    /// The latest time that the process wrote of itself, on CLOCK_MONOTONIC.
    pub fn last_ns(&self) -> u64 {
        self.numbers.get(LAST).copied().unwrap_or(0)
    }

    /// Counters, live samples and extents as a snapshot has them. `stacks` are all that the process ever had.
    pub fn restore(&self, mut stacks: Vec<Stack>) -> (Vec<Stack>, Vec<LiveSample>, Vec<Extent>) {
        stacks.truncate(self.counters.len());
        for (stack, counters) in stacks.iter_mut().zip(&self.counters) {
            counters.put_into(stack);
        }
        let mut live = Vec::new();
        let mut extents = Vec::new();
        let known = stacks.len();
        for block in self.blocks.iter().filter(|block| (block.stack as usize) < known) {
            let sample = LiveSample {
                address: address_of(block.key),
                size: block.size,
                inverse_probability: block.inverse_probability.into(),
                monotonic_ns: block.monotonic_ns,
                stack: block.stack as usize,
                tid: block.tid,
                family: family_of(block.key),
            };
            take_from_freed(&mut stacks[sample.stack], &sample);
            if block.flags & EXTENT == 0 {
                live.push(sample);
            } else if block.inverse_probability == 1.0 {
                // Others are mappings below 1 MiB, which ramson recorded as samples up to version 2
                // of the profile.
                extents.push(Extent::of(&sample, block.flags));
            }
        }
        extents.sort_by_key(|extent| extent.start);
        (stacks, live, extents)
    }
}

impl Block {
    /// Key that orders blocks and tells them apart.
    pub fn key(&self) -> (u64, u64, u32, u64) {
        (self.monotonic_ns, self.key, self.flags, self.size)
    }
}

impl Counters {
    /// Whether the whole numbers are the same.
    pub fn has_counts_of(&self, other: &Counters) -> bool {
        let counts = |of: &Counters| (of.sampled_objects, of.sampled_bytes, of.lifetimes);
        counts(self) == counts(other)
    }

    fn of(stack: &Stack) -> Self {
        Self {
            sampled_objects: stack.sampled_alloc_objects,
            sampled_bytes: stack.sampled_alloc_bytes,
            weighted: [
                stack.alloc_objects,
                stack.alloc_space,
                stack.alloc_objects_variance,
                stack.alloc_space_variance,
            ],
            lifetimes: stack.lifetimes,
        }
    }

    /// With everything freed that was allocated.
    fn put_into(&self, stack: &mut Stack) {
        stack.sampled_alloc_objects = self.sampled_objects;
        stack.sampled_alloc_bytes = self.sampled_bytes;
        stack.sampled_freed_objects = self.sampled_objects;
        stack.sampled_freed_bytes = self.sampled_bytes;
        [
            stack.alloc_objects,
            stack.alloc_space,
            stack.alloc_objects_variance,
            stack.alloc_space_variance,
        ] = self.weighted;
        stack.freed_objects = stack.alloc_objects;
        stack.freed_space = stack.alloc_space;
        stack.lifetimes = self.lifetimes;
    }
}

fn take_from_freed(stack: &mut Stack, live: &LiveSample) {
    let weight = live.inverse_probability;
    stack.sampled_freed_objects = stack.sampled_freed_objects.saturating_sub(1);
    stack.sampled_freed_bytes = stack.sampled_freed_bytes.saturating_sub(live.size);
    stack.freed_objects = (stack.freed_objects - weight).max(0.0);
    stack.freed_space = (stack.freed_space - weight * live.size as f64).max(0.0);
}

/// Weighted usable bytes of the live samples of the heap.
pub fn live_space(snapshot: &Snapshot) -> Estimate {
    let roundings = Roundings::of(snapshot);
    let of = |live: &LiveSample| {
        let usable = roundings.usable_bytes(live);
        Estimate::of_sample(usable, live.inverse_probability, SampleUnit::Bytes)
    };
    let sum: Estimate = snapshot.live.iter().map(of).sum();
    // A block that found no place in the live table may be live, too.
    let lost = snapshot.header.health.get(Health::DroppedLive as usize);
    if lost.is_some_and(|&lost| lost > 0) { sum.as_part() } else { sum }
}
