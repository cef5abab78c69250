//! Programs whose truth is known, in simulated time. Which allocations become samples, and what they stand for, is decided by the
//! real sampler's source; the records are what the real recorder would have made.

mod labelled;
mod programs;
#[path = "../../libramson/src/sampler.rs"]
#[allow(dead_code, reason = "the governor's part is not simulated")]
mod sampler;
mod sites;

pub use labelled::{Function, Labelled, PROGRAMS, Program};
pub use programs::{BUSY, Kind, Simulation};

use ramson_format::lifetime_bucket;
use ramson_leaks::{LiveBlock, StackHistory};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A simulated second, in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// A sampled allocation that is live: its stack and its place among that stack's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleId {
    stack: usize,
    slot: usize,
}

struct Thread {
    random: u64,
    countdown: u64,
}

#[derive(Default)]
struct Stack {
    first_ns: Option<u64>,
    lifetimes: [u64; ramson_format::LIFETIME_BUCKETS],
    slots: Vec<Option<LiveBlock>>,
    free_slots: Vec<usize>,
}

/// A process: threads that sample, stacks that were recorded, and a clock.
pub struct World {
    now_ns: u64,
    interval_bytes: u64,
    threads: Vec<Thread>,
    stacks: Vec<Stack>,
    ends: BinaryHeap<Reverse<(u64, SampleId)>>,
    random: u64,
}

impl World {
    /// The same seed gives the same world.
    pub fn new(seed: u64, interval_bytes: u64, threads: usize, stacks: usize) -> Self {
        let mut random = sampler::seed(seed);
        let mut next = || {
            random = sampler::next_random(random);
            sampler::seed(random)
        };
        let threads = (0..threads).map(|_| {
            let random = next();
            Thread { random, countdown: sampler::draw_countdown(random, interval_bytes) }
        });
        let threads = threads.collect();
        let stacks = (0..stacks).map(|_| Stack::default()).collect();
        Self { now_ns: 0, interval_bytes, threads, stacks, ends: BinaryHeap::new(), random }
    }

    /// The clock.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.random = sampler::next_random(self.random);
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.uniform()).ln() * mean
    }

    /// Passes time, and ends the samples that were to end.
    pub fn advance(&mut self, to_ns: u64) {
        while let Some(&Reverse((end_ns, sample))) = self.ends.peek().filter(|end| end.0.0 <= to_ns)
        {
            self.ends.pop();
            self.now_ns = end_ns.max(self.now_ns);
            self.free(sample);
        }
        self.now_ns = to_ns;
    }

    /// An allocation; `Some` if it became a sample.
    pub fn allocate(&mut self, thread: usize, stack: usize, size_bytes: u64) -> Option<SampleId> {
        let sampler = &mut self.threads[thread];
        let (rest, is_due) = sampler.countdown.overflowing_sub(size_bytes);
        sampler.countdown = rest;
        if !is_due {
            return None;
        }
        sampler.random = sampler::next_random(sampler.random);
        sampler.countdown = sampler::draw_countdown(sampler.random, self.interval_bytes);
        let inverse_probability = sampler::inverse_probability(size_bytes, self.interval_bytes);
        let record = &mut self.stacks[stack];
        record.first_ns.get_or_insert(self.now_ns);
        let block = LiveBlock::new(self.now_ns, size_bytes, inverse_probability);
        let slot = record.free_slots.pop().unwrap_or_else(|| {
            record.slots.push(None);
            record.slots.len() - 1
        });
        record.slots[slot] = Some(block);
        Some(SampleId { stack, slot })
    }

    /// Frees a sample now.
    pub fn free(&mut self, sample: SampleId) {
        let record = &mut self.stacks[sample.stack];
        let block = record.slots[sample.slot].take().expect("a sample is freed once");
        record.free_slots.push(sample.slot);
        record.lifetimes[lifetime_bucket(self.now_ns - block.time_ns)] += 1;
    }

    /// Frees a sample after this time.
    pub fn free_after(&mut self, sample: Option<SampleId>, lifetime_ns: u64) {
        if let Some(sample) = sample {
            self.ends.push(Reverse((self.now_ns + lifetime_ns, sample)));
        }
    }

    /// History of a stack up to now, as a reader knows it; `None` without a live sample.
    pub fn history(&self, stack: usize) -> Option<StackHistory> {
        let record = &self.stacks[stack];
        let live: Vec<LiveBlock> = record.slots.iter().flatten().copied().collect();
        (!live.is_empty()).then(|| StackHistory {
            start_ns: 0,
            first_ns: record.first_ns.unwrap_or(0),
            now_ns: self.now_ns,
            lifetimes: record.lifetimes,
            live,
            ..StackHistory::default()
        })
    }
}
