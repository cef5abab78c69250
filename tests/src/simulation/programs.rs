//! The programs: a leak in several disguises, and what looks like one.

use super::{SECOND, SampleId, World};
use ramson_leaks::{Finding, Settings, judge};
use std::collections::{HashMap, VecDeque};

/// Bytes per second that a busy program allocates.
pub const BUSY: f64 = 20.0 * 1048576.0;
/// Simulated time is passed in steps.
const STEP_NS: u64 = SECOND / 100;
/// Stack 0 is the ordinary traffic of every program; what is special comes from stack 1.
const TRAFFIC_STACK: usize = 0;
const SPECIAL_STACK: usize = 1;
const ENTRY_BYTES: u64 = 4096;

/// Behaviour of a program in addition to its ordinary traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 1% of the traffic, from a stack of its own, is never freed.
    Leak,
    /// 1% of the ordinary traffic's blocks are never freed: same stack as the others.
    MixedLeak,
    /// One of 200 threads frees nothing.
    ThreadLeak,
    /// A list of small nodes with their payload, 1% of the traffic, is never cleared.
    ReachableLeak,
    /// An LRU cache that fills; some keys are asked for more often than others.
    Cache,
    /// A cache in which what came first goes first.
    FifoCache,
    /// A table that is built at the start.
    BuiltOnce,
    /// Memory that is collected, and freed as a whole.
    Sawtooth,
    /// Sizes and lifetimes of all kinds, without a leak.
    Fragmenting,
}

/// A program that runs in simulated time.
pub struct Simulation {
    /// Behaviour of the program.
    pub kind: Kind,
    world: World,
    /// Bytes allocated in a second.
    traffic: f64,
    /// Entries of a cache at its plateau.
    capacity: usize,
    cached: HashMap<u64, (u64, Option<SampleId>)>,
    /// Keys with the serial of their use, oldest first; uses that are not the latest of their key are void.
    uses: VecDeque<(u64, u64)>,
    serial: u64,
    collected: Vec<SampleId>,
    period_ns: u64,
    plateau_ns: Option<u64>,
    /// Bytes of ordinary traffic that are due; below 0 if the latest block was larger than what was.
    owed: f64,
}

impl Kind {
    /// Every program.
    pub const ALL: [Kind; 9] = [
        Kind::Leak,
        Kind::MixedLeak,
        Kind::ThreadLeak,
        Kind::ReachableLeak,
        Kind::Cache,
        Kind::FifoCache,
        Kind::BuiltOnce,
        Kind::Sawtooth,
        Kind::Fragmenting,
    ];

    /// The stack that leaks, if one does.
    pub fn leaking_stack(self) -> Option<usize> {
        match self {
            Kind::Leak | Kind::ReachableLeak => Some(SPECIAL_STACK),
            Kind::MixedLeak | Kind::ThreadLeak => Some(TRAFFIC_STACK),
            _ => None,
        }
    }

    fn threads(self) -> usize {
        if self == Kind::ThreadLeak { 200 } else { 4 }
    }
}

impl Simulation {
    /// Seeds differ in the samples that are taken, in the size of caches and in periods.
    pub fn new(kind: Kind, seed: u64, interval_bytes: u64, traffic: f64) -> Self {
        let mut world = World::new(seed, interval_bytes, kind.threads(), 2);
        // At a tenth of the traffic a cache is full after one minute to three.
        let entries = 32_000.0 + world.uniform() * 60_000.0;
        let capacity = (entries * traffic / BUSY) as usize;
        let period_ns = SECOND * (40 + (world.uniform() * 110.0) as u64);
        Self {
            kind,
            world,
            traffic,
            capacity,
            cached: HashMap::new(),
            uses: VecDeque::new(),
            serial: 0,
            collected: Vec::new(),
            period_ns,
            plateau_ns: None,
            owed: 0.0,
        }
    }

    /// Runs until this time.
    pub fn run_until(&mut self, seconds: u64) {
        while self.world.now_ns() < seconds * SECOND {
            self.step();
            let next = self.world.now_ns() + STEP_NS;
            self.world.advance(next);
        }
    }

    /// Whether the truth is beyond doubt: a cache has been full, and a sawtooth's first tooth over, for a tenth of that time.
    pub fn is_settled(&self) -> bool {
        let now_ns = self.world.now_ns();
        let is_over = |ns: u64| now_ns > ns + ns / 10;
        match self.kind {
            Kind::Cache | Kind::FifoCache => self.plateau_ns.is_some_and(is_over),
            Kind::Sawtooth => is_over(self.period_ns),
            _ => true,
        }
    }

    /// The stacks with live samples, judged as `ramson leaks` does.
    pub fn findings(&self) -> Vec<(usize, Finding)> {
        let histories: Vec<_> = [TRAFFIC_STACK, SPECIAL_STACK]
            .into_iter()
            .filter_map(|stack| Some((stack, self.world.history(stack)?)))
            .collect();
        let settings = Settings { min_age_ns: 60 * SECOND, stacks: histories.len() };
        let judged = histories.iter().map(|(stack, history)| (*stack, judge(history, &settings)));
        judged.collect()
    }

    fn step(&mut self) {
        let budget = self.traffic * STEP_NS as f64 / SECOND as f64;
        let special = match self.kind {
            Kind::Leak | Kind::ReachableLeak => 0.01 * budget,
            Kind::Cache | Kind::FifoCache | Kind::Sawtooth => 0.1 * budget,
            _ => 0.0,
        };
        self.ordinary(budget - special);
        match self.kind {
            Kind::Leak => self.keep(special, ENTRY_BYTES),
            Kind::ReachableLeak => {
                self.keep(special / 8.0, 48);
                self.keep(special * 7.0 / 8.0, 336);
            }
            Kind::Cache => self.ask_cache(special),
            Kind::FifoCache => self.fill_fifo(special),
            Kind::BuiltOnce if self.world.now_ns() < 2 * SECOND => self.keep(2.5 * budget, 1024),
            Kind::Sawtooth => self.collect(special),
            _ => {}
        }
    }

    fn ordinary(&mut self, bytes: f64) {
        let threads = self.kind.threads();
        self.owed += bytes;
        while self.owed > 0.0 {
            let is_large = self.kind == Kind::Fragmenting;
            let size = self.size(if is_large { 12.0 } else { 9.0 });
            self.owed -= size as f64;
            let thread = (self.world.uniform() * threads as f64) as usize;
            let Some(sample) = self.world.allocate(thread, TRAFFIC_STACK, size) else { continue };
            let is_kept = match self.kind {
                Kind::MixedLeak => self.world.uniform() < 0.01,
                Kind::ThreadLeak => thread == 17,
                _ => false,
            };
            let is_long = self.kind == Kind::Fragmenting && self.world.uniform() < 0.05;
            let lifetime = self.world.exponential(if is_long { 60.0 } else { 2.0 });
            if !is_kept {
                self.world.free_after(Some(sample), (lifetime * SECOND as f64) as u64);
            }
        }
    }

    /// 256 bytes to 2^octaves times that, log-uniform.
    fn size(&mut self, octaves: f64) -> u64 {
        (256.0 * (self.world.uniform() * octaves).exp2()) as u64
    }

    /// Blocks that are never freed; a rest of less than a block is allocated with the probability that keeps the mean.
    fn keep(&mut self, bytes: f64, size: u64) {
        for _ in 0..self.count(bytes, size) {
            self.world.allocate(0, SPECIAL_STACK, size);
        }
    }

    fn count(&mut self, bytes: f64, size: u64) -> usize {
        let blocks = bytes / size as f64;
        blocks as usize + usize::from(self.world.uniform() < blocks.fract())
    }

    fn ask_cache(&mut self, bytes: f64) {
        for _ in 0..self.count(bytes, ENTRY_BYTES) {
            let keys = 3.0 * self.capacity as f64;
            // Half of the requests go to a tenth of the keys.
            let is_hot = self.world.uniform() < 0.5;
            let key = (self.world.uniform() * if is_hot { keys / 10.0 } else { keys }) as u64;
            self.serial += 1;
            self.uses.push_back((key, self.serial));
            if let Some((latest, _)) = self.cached.get_mut(&key) {
                *latest = self.serial;
                continue;
            }
            let sample = self.world.allocate(1, SPECIAL_STACK, ENTRY_BYTES);
            self.cached.insert(key, (self.serial, sample));
            if self.cached.len() > self.capacity {
                self.evict();
            }
        }
    }

    fn fill_fifo(&mut self, bytes: f64) {
        for _ in 0..self.count(bytes, ENTRY_BYTES) {
            self.serial += 1;
            self.uses.push_back((self.serial, self.serial));
            let sample = self.world.allocate(1, SPECIAL_STACK, ENTRY_BYTES);
            self.cached.insert(self.serial, (self.serial, sample));
            if self.cached.len() > self.capacity {
                self.evict();
            }
        }
    }

    fn evict(&mut self) {
        self.plateau_ns.get_or_insert(self.world.now_ns());
        while let Some((key, serial)) = self.uses.pop_front() {
            if self.cached.get(&key).is_some_and(|(latest, _)| *latest == serial) {
                if let Some((_, Some(sample))) = self.cached.remove(&key) {
                    self.world.free(sample);
                }
                return;
            }
        }
    }

    fn collect(&mut self, bytes: f64) {
        for _ in 0..self.count(bytes, ENTRY_BYTES) {
            self.collected.extend(self.world.allocate(2, SPECIAL_STACK, ENTRY_BYTES));
        }
        if self.world.now_ns() % self.period_ns < STEP_NS && self.world.now_ns() > 0 {
            for sample in std::mem::take(&mut self.collected) {
                self.world.free(sample);
            }
        }
    }
}
