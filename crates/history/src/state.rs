//! What of a snapshot changes from one moment to the next, in the order in which it is kept: counters of stacks by their number
//! in the process, blocks by their time, and the header's numbers.
//!
//! What was freed is not kept: it is what was allocated and is not live.

use ramson_format::LIFETIME_BUCKETS;
use ramson_profile::{Estimate, SampleUnit};
use ramson_reader::{Extent, Header, LiveSample, Snapshot, Stack};

/// Bits of `Block::flags`; a live sample has none.
pub const EXTENT: u8 = 1;
pub const RESERVED: u8 = 2;
pub const SHARED: u8 = 4;

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
    pub address: u64,
    pub size: u64,
    pub stack: u32,
    pub tid: u32,
    pub inverse_probability: f32,
    pub flags: u8,
}

/// One moment of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// In the order of `numbers_of`.
    pub numbers: Vec<u64>,
    /// By number of the stack.
    pub counters: Vec<Counters>,
    /// By time, then address, then flags.
    pub blocks: Vec<Block>,
}

/// Index of the sampling interval in `State::numbers`.
const INTERVAL: usize = 2;
/// Index of the last time that the process wrote there.
const LAST: usize = 3;

/// The header's numbers that change while a process runs.
fn numbers_of(header: &Header) -> Vec<u64> {
    let mut numbers = vec![
        u64::from(header.state),
        u64::from(header.off_reason),
        header.interval_bytes,
        header.last_monotonic_ns,
        header.exit_status as u32 as u64,
        u64::from(header.flags),
        u64::from(header.interval_changes),
        header.last_cycles,
        header.last_cycles_ns,
        header.cpu_ns,
        header.committed_bytes,
    ];
    numbers.extend(&header.health);
    numbers
}

/// Puts them back.
pub fn set_numbers(header: &mut Header, numbers: &[u64]) {
    let mut rest = numbers.iter().copied();
    let mut next = || rest.next().unwrap_or(0);
    header.state = next() as u32;
    header.off_reason = next() as u32;
    header.interval_bytes = next();
    header.last_monotonic_ns = next();
    header.exit_status = next() as u32 as i32;
    header.flags = next() as u32;
    header.interval_changes = next() as u32;
    header.last_cycles = next();
    header.last_cycles_ns = next();
    header.cpu_ns = next();
    header.committed_bytes = next();
    header.health = (0..ramson_format::HEALTH.len()).map(|_| next()).collect();
}

impl State {
    /// Of a snapshot whose stacks have these numbers in the process.
    pub fn of(snapshot: &Snapshot, numbers: &[u32]) -> Self {
        let known = numbers.iter().map(|&number| number as usize + 1).max().unwrap_or(0);
        let mut counters = vec![Counters::default(); known];
        for (stack, &number) in snapshot.stacks.iter().zip(numbers) {
            counters[number as usize] = Counters::of(stack);
        }
        let live = snapshot.live.iter().map(|live| Block {
            monotonic_ns: live.monotonic_ns,
            address: live.address,
            size: live.size,
            stack: numbers[live.stack],
            tid: live.tid,
            inverse_probability: live.inverse_probability as f32,
            flags: 0,
        });
        let extents = snapshot.extents.iter().map(|extent| Block {
            monotonic_ns: extent.monotonic_ns,
            address: extent.start,
            size: extent.bytes,
            stack: numbers[extent.stack],
            tid: extent.tid,
            inverse_probability: 1.0,
            flags: EXTENT
                | if extent.is_reserved { RESERVED } else { 0 }
                | if extent.is_shared { SHARED } else { 0 },
        });
        let mut blocks: Vec<Block> = live.chain(extents).collect();
        blocks.sort_unstable_by_key(Block::key);
        Self { numbers: numbers_of(&snapshot.header), counters, blocks }
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
        let (mut live, mut extents) = (Vec::new(), Vec::new());
        let known = stacks.len();
        for block in self.blocks.iter().filter(|block| (block.stack as usize) < known) {
            let weight = f64::from(block.inverse_probability);
            let stack = block.stack as usize;
            take_from_freed(&mut stacks[stack], block.size, weight);
            if block.flags & EXTENT == 0 {
                live.push(LiveSample {
                    address: block.address,
                    size: block.size,
                    inverse_probability: weight,
                    monotonic_ns: block.monotonic_ns,
                    stack,
                    tid: block.tid,
                });
            } else if weight == 1.0 {
                // Others are mappings below 1 MiB, which ramson recorded as samples up to version 2
                // of the profile.
                extents.push(Extent {
                    start: block.address,
                    bytes: block.size,
                    monotonic_ns: block.monotonic_ns,
                    stack,
                    tid: block.tid,
                    is_reserved: block.flags & RESERVED != 0,
                    is_shared: block.flags & SHARED != 0,
                });
            }
        }
        extents.sort_by_key(|extent| extent.start);
        (stacks, live, extents)
    }
}

impl Block {
    /// What orders blocks and tells them apart.
    pub fn key(&self) -> (u64, u64, u8, u64) {
        (self.monotonic_ns, self.address, self.flags, self.size)
    }
}

impl Counters {
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

fn take_from_freed(stack: &mut Stack, size: u64, weight: f64) {
    stack.sampled_freed_objects = stack.sampled_freed_objects.saturating_sub(1);
    stack.sampled_freed_bytes = stack.sampled_freed_bytes.saturating_sub(size);
    stack.freed_objects = (stack.freed_objects - weight).max(0.0);
    stack.freed_space = (stack.freed_space - weight * size as f64).max(0.0);
}

/// Weighted bytes of the live samples of the heap.
pub fn live_space(snapshot: &Snapshot) -> Estimate {
    let of = |live: &LiveSample| {
        Estimate::of_sample(live.size, live.inverse_probability, SampleUnit::Bytes)
    };
    snapshot.live.iter().map(of).sum()
}
