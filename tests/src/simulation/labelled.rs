//! The labelled set: programs of which is known what leaks, and what only looks like it.

use super::SECOND;
use super::World;
use super::sites::{Life, Load, Running, Site};
use ramson_leaks::{Judged, Settings, StackHistory, Verdict, judge_paths};
use ramson_profile::SampleUnit;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
/// Simulated time is passed in steps.
const STEP_NS: u64 = SECOND / 10;
/// Ordinary traffic of every program: 20 MiB/s in blocks of 4 KiB that live for two seconds on average, and of these a part that
/// lives for twenty.
const TRAFFIC: [Site; 2] = [churn(18.0 * MIB, 4096, 2.0), churn(2.0 * MIB, 1024, 20.0)];

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// In words.
    pub name: &'static str,
    /// Allocations apart from its traffic, all in one function, but with different lines and callers. The function leaks if one of the
    /// sites does.
    pub sites: &'static [Site],
}

/// Facts about a function after some time.
pub struct Function {
    /// Whether it leaks.
    pub is_leak: bool,
    /// Whether what does not leak has shown its bound.
    pub is_settled: bool,
    /// Live samples of what leaks.
    pub leaked_samples: u64,
    /// For each finding that is called a leak suspect: whether one of its paths leaks.
    pub suspects: Vec<bool>,
    /// Findings with a path that leaks that are called something else, not only not judged yet.
    pub denials: usize,
    /// Live bytes, as sampled.
    pub inuse_bytes: f64,
    /// Age of the oldest live sample.
    pub oldest_ns: u64,
}

const fn churn(rate: f64, block: u64, mean_s: f64) -> Site {
    site(false, rate, block, Life::Exponential(mean_s), Load::Steady)
}

const fn site(is_leak: bool, rate: f64, block: u64, life: Life, load: Load) -> Site {
    Site { is_leak, rate, block, stacks: 1, life, load }
}

const fn leak(kib_per_s: f64, block: u64, load: Load) -> Site {
    site(true, kib_per_s * KIB, block, Life::Kept, load)
}

const fn bound(kib_per_s: f64, block: u64, life: Life) -> Site {
    site(false, kib_per_s * KIB, block, life, Load::Steady)
}

const fn from_stacks(stacks: usize, site: Site) -> Site {
    Site { stacks, ..site }
}

const fn under(load: Load, site: Site) -> Site {
    Site { load, ..site }
}

macro_rules! programs {
    ($($name:literal: [$($site:expr),+];)+) => {
        /// All of them.
        pub const PROGRAMS: &[Program] = &[$(Program { name: $name, sites: &[$($site),+] }),+];
    };
}

programs! {
    // Leaks.
    "leak of 500 KiB/s": [leak(500.0, 4096, Load::Steady)];
    "leak of 200 KiB/s": [leak(200.0, 2048, Load::Steady)];
    "leak of 50 KiB/s": [leak(50.0, 4096, Load::Steady)];
    "leak of 20 KiB/s": [leak(20.0, 1024, Load::Steady)];
    "leak of 5 KiB/s": [leak(5.0, 1024, Load::Steady)];
    "leak of 1 KiB/s": [leak(1.0, 512, Load::Steady)];
    "leak of small blocks": [leak(60.0, 48, Load::Steady)];
    "leak of 256 KiB blocks": [leak(200.0, 256 << 10, Load::Steady)];
    "leak of 2 MiB blocks, one in 20 s": [leak(100.0, 2 << 20, Load::Steady)];
    "leak from three lines": [leak(20.0, 48, Load::Steady), leak(40.0, 336, Load::Steady), leak(20.0, 1024, Load::Steady)];
    "leak from eight callers": [from_stacks(8, leak(80.0, 512, Load::Steady))];
    "leak from forty callers": [from_stacks(40, leak(120.0, 512, Load::Steady))];
    "1% of busy churn is leaked": [site(true, 10.0 * MIB, 2048, Life::ShareKept { share: 0.01, mean_s: 2.0 }, Load::Steady)];
    "0.2% of busy churn is leaked": [site(true, 10.0 * MIB, 2048, Life::ShareKept { share: 0.002, mean_s: 2.0 }, Load::Steady)];
    "one thread of 200 leaks": [site(true, 10.0 * MIB, 2048, Life::ThreadKept(200), Load::Steady)];
    "one session of twenty is never closed": [site(true, 500.0 * KIB, 4096, Life::ShareKept { share: 0.05, mean_s: 60.0 }, Load::Steady)];
    "one long session of fifty is never closed": [site(true, 800.0 * KIB, 4096, Life::ShareKept { share: 0.02, mean_s: 300.0 }, Load::Steady)];
    "leak beside a table of the same function": [leak(60.0, 1024, Load::Steady), under(Load::Until(2.0), bound(20480.0, 1024, Life::Kept))];
    "leak beside a cache of the same function": [leak(60.0, 1024, Load::Steady), bound(400.0, 4096, Life::Fifo(16.0 * MIB))];
    "leak beside sessions of the same function": [leak(60.0, 1024, Load::Steady), bound(200.0, 2048, Life::Exponential(120.0))];
    "leak in bursts, one a minute": [leak(80.0, 1024, Load::Bursts(60.0))];
    "leak in bursts, one in five minutes": [leak(80.0, 1024, Load::Bursts(300.0))];
    "leak under a load that waves in 20 min": [leak(100.0, 1024, Load::Diurnal { period_s: 1200.0, low: 0.2 })];
    "leak under a load that waves in 2 h": [leak(100.0, 1024, Load::Diurnal { period_s: 7200.0, low: 0.1 })];
    "leak under a load that waves in 6 min, idle at night": [leak(100.0, 1024, Load::Diurnal { period_s: 360.0, low: 0.0 })];
    "leak that begins after 5 min": [leak(80.0, 1024, Load::From(300.0))];
    "leak that begins after 40 min": [leak(80.0, 1024, Load::From(2400.0))];
    "leak that gets faster": [leak(60.0, 1024, Load::Power(2.0))];
    "leak that gets slower": [leak(60.0, 1024, Load::Power(0.7))];
    "leak while the program is asked now and then": [leak(240.0, 1024, Load::OnOff { on_s: 20.0, off_s: 60.0 })];
    "leak in long shifts": [leak(120.0, 1024, Load::OnOff { on_s: 300.0, off_s: 200.0 })];
    "list in one block that doubles": [site(true, 100.0 * KIB, 64, Life::Doubling(1e15), Load::Steady)];
    "table built in 1 s, then a leak from the same call path": [leak(40.0, 1000, Load::Rush { times: 500.0, from_s: 0.0, to_s: 1.0 })];
    "table built in 15 s, then a leak from the same call path": [leak(60.0, 1000, Load::Rush { times: 40.0, from_s: 0.0, to_s: 15.0 })];
    "leak, with a table after 5 min from the same call path": [leak(40.0, 1000, Load::Rush { times: 500.0, from_s: 300.0, to_s: 301.0 })];
    "table of one caller, leak of another": [leak(10.0, 1000, Load::Steady), under(Load::Until(1.0), bound(20480.0, 1000, Life::Kept))];
    // Caches.
    "cache, first in first out, full after 40 s": [bound(500.0, 4096, Life::Fifo(20.0 * MIB))];
    "cache, first in first out, full after 4 min": [bound(200.0, 4096, Life::Fifo(47.0 * MIB))];
    "cache, first in first out, full after 20 min": [bound(100.0, 4096, Life::Fifo(117.0 * MIB))];
    "cache, first in first out, full after 3 h": [bound(50.0, 4096, Life::Fifo(530.0 * MIB))];
    "cache, least recently used, full after 1 min": [bound(800.0, 4096, Life::Lru(20.0 * MIB))];
    "cache, least recently used, full after 7 min": [bound(400.0, 4096, Life::Lru(60.0 * MIB))];
    "cache, least recently used, full after 40 min": [bound(200.0, 4096, Life::Lru(180.0 * MIB))];
    "cache, least recently used, under a load that waves": [under(Load::Diurnal { period_s: 900.0, low: 0.2 }, bound(800.0, 4096, Life::Lru(40.0 * MIB)))];
    "cache of 20 callers, full after 3 min": [from_stacks(20, bound(300.0, 4096, Life::Fifo(53.0 * MIB)))];
    "cache with entries of 1 min": [bound(300.0, 2048, Life::Fixed(60.0))];
    "cache with entries of 5 min": [bound(200.0, 2048, Life::Fixed(300.0))];
    "cache with entries of 30 min": [bound(100.0, 2048, Life::Fixed(1800.0))];
    "cache with entries of 5 min under a load that waves": [under(Load::Diurnal { period_s: 1200.0, low: 0.1 }, bound(300.0, 2048, Life::Fixed(300.0)))];
    // Collected and cleared.
    "sawtooth of 40 s": [bound(500.0, 1024, Life::Cleared(40.0))];
    "sawtooth of 5 min": [bound(300.0, 1024, Life::Cleared(300.0))];
    "sawtooth of 15 min": [bound(200.0, 1024, Life::Cleared(900.0))];
    "sawtooth of 50 min": [bound(100.0, 1024, Life::Cleared(3000.0))];
    "table that is loaded anew each 5 min": [bound(0.0, 1024, Life::Replaced { period_s: 300.0, bytes: 60.0 * MIB })];
    "table that is loaded anew each 20 min": [bound(0.0, 1024, Life::Replaced { period_s: 1200.0, bytes: 100.0 * MIB })];
    // Built once.
    "table built in 2 s": [under(Load::Until(2.0), bound(30720.0, 1024, Life::Kept))];
    "tables built in the first 50 s": [under(Load::Until(50.0), bound(1024.0, 1024, Life::Kept))];
    "tables built in the first 8 min": [under(Load::Until(480.0), bound(200.0, 1024, Life::Kept))];
    "tables built when they are first used": [under(Load::At(&[1.0, 20.0, 45.0, 130.0, 400.0, 1300.0]), bound(20480.0, 1024, Life::Kept))];
    // Grows, within bounds.
    "names seen for the first time, less each minute": [under(Load::Fading(60.0), bound(800.0, 64, Life::Kept))];
    "names seen for the first time, less each 4 min": [under(Load::Fading(240.0), bound(300.0, 64, Life::Kept))];
    "names seen for the first time, less each 20 min": [under(Load::Fading(1200.0), bound(150.0, 64, Life::Kept))];
    "pool as large as the greatest demand of 8 min": [bound(0.0, 65536, Life::Pool { bytes: 80.0 * MIB, period_s: 480.0, low: 0.2 })];
    "pool as large as the greatest demand of 40 min": [bound(0.0, 65536, Life::Pool { bytes: 80.0 * MIB, period_s: 2400.0, low: 0.2 })];
    "arena of 1 MiB chunks": [bound(0.0, 1 << 20, Life::Pool { bytes: 200.0 * MIB, period_s: 600.0, low: 0.5 })];
    "hash table that doubles to 64 MiB": [bound(200.0, 64, Life::Doubling(64.0 * MIB))];
    // Long lives.
    "sessions of 1 min": [bound(500.0, 4096, Life::Exponential(60.0))];
    "sessions of 10 min": [bound(200.0, 4096, Life::Exponential(600.0))];
    "sessions of 30 min": [bound(150.0, 4096, Life::Exponential(1800.0))];
    "sessions of half a minute, some far longer": [bound(400.0, 4096, Life::Lognormal { median_s: 30.0, sigma: 1.5 })];
    "lives with a long tail": [bound(2000.0, 2048, Life::Pareto { least_s: 1.0, power: 1.2 })];
    "sessions of 2 min under a load that waves": [under(Load::Diurnal { period_s: 1200.0, low: 0.1 }, bound(500.0, 4096, Life::Exponential(120.0)))];
    "sessions in shifts": [under(Load::OnOff { on_s: 120.0, off_s: 120.0 }, bound(400.0, 4096, Life::Exponential(90.0)))];
    "sizes and lives of all kinds": [bound(2000.0, 64, Life::Exponential(5.0)), bound(2000.0, 16384, Life::Exponential(40.0)), bound(500.0, 1 << 20, Life::Exponential(20.0))];
}

/// A program that runs in simulated time.
pub struct Labelled {
    world: World,
    /// The functions, each with its sites: the special one and the ordinary traffic.
    functions: Vec<Vec<Running>>,
}

impl Labelled {
    /// Seeds differ in the samples that are taken, and in rates by a fifth.
    pub fn new(program: &Program, seed: u64, interval_bytes: u64) -> Self {
        let sites = program.sites.iter().chain(&TRAFFIC);
        let stacks = sites.map(|site| site.stacks).sum();
        let mut world = World::new(seed, interval_bytes, 4, stacks);
        let mut first = 0;
        let mut running = |site: &Site| {
            let factor = 0.8 + 0.4 * world.uniform();
            let running = Running::new(Site { rate: site.rate * factor, ..*site }, first);
            first += site.stacks;
            running
        };
        let special: Vec<Running> = program.sites.iter().map(&mut running).collect();
        let traffic = TRAFFIC.iter().map(|site| vec![running(site)]);
        let functions = std::iter::once(special).chain(traffic).collect();
        Self { world, functions }
    }

    /// Runs until this time.
    pub fn run_until(&mut self, seconds: u64) {
        while self.world.now_ns() < seconds * SECOND {
            for site in self.functions.iter_mut().flatten() {
                site.step(&mut self.world, STEP_NS);
            }
            let next = self.world.now_ns() + STEP_NS;
            self.world.advance(next);
        }
    }

    /// Every function, judged as `ramson leaks` does.
    pub fn judged(&self, min_age_ns: u64) -> Vec<Function> {
        let settings = Settings { min_age_ns, stacks: self.functions.len() };
        self.functions.iter().map(|sites| self.function(sites, &settings)).collect()
    }

    fn function(&self, sites: &[Running], settings: &Settings) -> Function {
        let of_site = |site: &Running| {
            let is_leak = site.site.is_leak;
            site.stacks.clone().map(move |stack| (stack, is_leak))
        };
        let stacks = sites.iter().flat_map(of_site);
        let known =
            stacks.filter_map(|(stack, is_leak)| Some((is_leak, self.world.history(stack)?)));
        let (leaks, histories): (Vec<bool>, Vec<StackHistory>) = known.unzip();
        let judged =
            if histories.is_empty() { Vec::new() } else { judge_paths(&histories, settings) };
        let suspects = judged.iter().filter(|it| it.finding.verdict == Verdict::Growing);
        let has_leak = |it: &Judged| it.paths.iter().any(|&path| leaks[path]);
        let is_denial = |it: &&Judged| {
            !matches!(it.finding.verdict, Verdict::Growing | Verdict::NotEnoughData) && has_leak(it)
        };
        let bytes = |history: &StackHistory| history.inuse(SampleUnit::Bytes).value;
        let oldest = histories.iter().filter_map(|history| Some(history.ages()?.oldest_ns)).max();
        Function {
            is_leak: sites.iter().any(|site| site.site.is_leak),
            is_settled: sites.iter().all(|site| site.is_settled(self.world.now_ns())),
            leaked_samples: sites.iter().map(Running::leaked_samples).sum(),
            suspects: suspects.map(has_leak).collect(),
            denials: judged.iter().filter(is_denial).count(),
            inuse_bytes: histories.iter().map(bytes).sum(),
            oldest_ns: oldest.unwrap_or(0),
        }
    }
}

impl Function {
    /// Whether it leaks and is called so.
    pub fn is_found(&self) -> bool {
        self.suspects.contains(&true)
    }

    /// How many findings of what does not leak are called leak suspects.
    pub fn false_alarms(&self) -> usize {
        self.suspects.iter().filter(|&&is_right| !is_right).count()
    }
}
