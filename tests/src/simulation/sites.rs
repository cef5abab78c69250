//! Memory use of one function of a simulated program: how fast it allocates, and when it frees.

use super::{SECOND, SampleId, World};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// How the rate changes with time.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Not at all.
    Steady,
    /// All of a period's bytes at its end, the seconds given.
    Bursts(f64),
    /// Between 1 and this share of it, with a period of so many seconds.
    Diurnal { period_s: f64, low: f64 },
    /// On and off for exponential times of these means.
    OnOff { on_s: f64, off_s: f64 },
    /// Nothing before.
    From(f64),
    /// Nothing after.
    Until(f64),
    /// Proportional to time^(power − 1), the given rate on average of the first ten minutes.
    Power(f64),
    /// Falls to 1/e in this time, without end.
    Fading(f64),
    /// A tenth of a second's bytes come at once at each of these times.
    At(&'static [f64]),
    /// The rate is `times` as high between these seconds: a table is built in addition to what goes on.
    Rush { times: f64, from_s: f64, to_s: f64 },
}

/// When memory is freed.
#[derive(Clone, Copy, Debug)]
pub enum Life {
    /// Never: a leak, or a table, which its load ends.
    Kept,
    /// This share never, the rest after an exponential time of this mean.
    ShareKept { share: f64, mean_s: f64 },
    /// Blocks of one thread are never freed, those of the others soon; the number of threads.
    ThreadKept(usize),
    /// After an exponential time.
    Exponential(f64),
    /// After this time.
    Fixed(f64),
    /// After exp of a normal variable.
    Lognormal { median_s: f64, sigma: f64 },
    /// After a time with a tail of this power.
    Pareto { least_s: f64, power: f64 },
    /// When so many bytes came after it.
    Fifo(f64),
    /// When it is the least recently used of so many bytes; half of the requests go to a tenth of the keys.
    Lru(f64),
    /// All at once, each period.
    Cleared(f64),
    /// Each period allocates `bytes` anew, and then frees those of the period before.
    Replaced { period_s: f64, bytes: f64 },
    /// Chunks are kept for later; as many bytes as were ever needed at once, of a demand between `low` and 1 times `bytes`.
    Pool { bytes: f64, period_s: f64, low: f64 },
    /// One block, copied to one of twice the size whenever it is full, up to this size.
    Doubling(f64),
}

/// One function.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Whether it leaks.
    pub is_leak: bool,
    /// Bytes per second.
    pub rate: f64,
    /// Bytes.
    pub block: u64,
    /// How many lines and callers it has, each a stack.
    pub stacks: usize,
    /// When it frees.
    pub life: Life,
    /// How fast it allocates.
    pub load: Load,
}

/// A function that runs.
pub struct Running {
    /// The site that it runs.
    pub site: Site,
    /// Its stacks in the world.
    pub stacks: Range<usize>,
    owed: f64,
    is_on: bool,
    switch_ns: u64,
    kept: VecDeque<Vec<SampleId>>,
    entries: usize,
    lru: Lru,
    held: f64,
    next_ns: u64,
    /// Since when its memory is bounded for all to see.
    bounded_ns: Option<u64>,
    /// Samples that are never freed.
    forgotten: u64,
}

#[derive(Default)]
struct Lru {
    cached: HashMap<u64, (u64, Vec<SampleId>)>,
    uses: VecDeque<(u64, u64)>,
    serial: u64,
}

impl Running {
    /// With its stacks from `first` on.
    pub fn new(site: Site, first: usize) -> Self {
        Self {
            site,
            stacks: first..first + site.stacks,
            owed: 0.0,
            is_on: false,
            switch_ns: 0,
            kept: VecDeque::new(),
            entries: 0,
            lru: Lru::default(),
            held: 0.0,
            next_ns: 0,
            bounded_ns: None,
            forgotten: 0,
        }
    }

    /// Whether what it does is beyond doubt: it leaks, or it has been bounded for a tenth of the time that this took.
    pub fn is_settled(&self, now_ns: u64) -> bool {
        let now_s = now_ns as f64 / SECOND as f64;
        let bounded_s = self.bounded_ns.map_or(f64::INFINITY, |ns| ns as f64 / SECOND as f64);
        let settles_s = match (self.site.life, self.site.load) {
            _ if self.site.is_leak => 0.0,
            (Life::Exponential(mean_s), _) => mean_s,
            (Life::Fixed(life_s), _) => life_s,
            (Life::Lognormal { median_s, .. }, _) => 2.0 * median_s,
            (Life::Pareto { least_s, .. }, _) => 5.0 * least_s,
            (Life::Cleared(period_s), _) => period_s,
            (Life::Replaced { .. }, _) | (_, Load::At(_)) => 0.0,
            (Life::Pool { period_s, .. }, _) => period_s,
            (Life::Doubling(_), _) => 0.0,
            (Life::Kept, Load::Until(end_s)) => end_s,
            (Life::Kept, Load::Fading(time_s)) => 2.0 * time_s,
            _ => bounded_s,
        };
        now_s > 1.1 * settles_s
    }

    /// Live samples of what it leaks.
    pub fn leaked_samples(&self) -> u64 {
        match self.site.life {
            _ if !self.site.is_leak => 0,
            Life::Doubling(_) => self.kept.iter().map(Vec::len).sum::<usize>() as u64,
            _ => self.forgotten,
        }
    }

    /// Does one step that begins now: allocates and frees.
    pub fn step(&mut self, world: &mut World, step_ns: u64) {
        let now_ns = world.now_ns();
        let life = self.site.life;
        match life {
            Life::Replaced { period_s, bytes } => return self.replace(world, period_s, bytes),
            Life::Pool { bytes, period_s, low } => {
                let needed = bytes * wave(now_ns, period_s, low);
                while self.held < needed {
                    self.held += self.site.block as f64;
                    self.allocate(world);
                }
                return;
            }
            Life::Cleared(period_s) if self.is_due(now_ns, period_s) => {
                self.kept.drain(..).flatten().for_each(|sample| world.free(sample));
            }
            _ => {}
        }
        self.owed += self.site.rate * self.factor(world, step_ns) * step_ns as f64 / SECOND as f64;
        while self.owed >= self.site.block as f64 {
            self.owed -= self.site.block as f64;
            self.one_block(world);
        }
    }

    fn one_block(&mut self, world: &mut World) {
        match self.site.life {
            Life::Lru(bytes) => self.ask(world, bytes),
            Life::Doubling(most) => self.grow(world, most),
            _ => {
                let sample = self.allocate(world);
                self.end(world, sample);
            }
        }
    }

    /// Settles when a block is freed.
    fn end(&mut self, world: &mut World, sample: Option<SampleId>) {
        let seconds = match self.site.life {
            Life::ShareKept { share, mean_s } => {
                let is_kept = world.uniform() < share;
                if is_kept { f64::INFINITY } else { world.exponential(mean_s) }
            }
            Life::ThreadKept(threads) => {
                let is_kept = world.uniform() * (threads as f64) < 1.0;
                if is_kept { f64::INFINITY } else { world.exponential(2.0) }
            }
            Life::Exponential(mean_s) => world.exponential(mean_s),
            Life::Fixed(life_s) => life_s,
            Life::Lognormal { median_s, sigma } => median_s * (sigma * normal(world)).exp(),
            Life::Pareto { least_s, power } => least_s * (1.0 - world.uniform()).powf(-1.0 / power),
            Life::Fifo(bytes) => {
                self.kept.push_back(sample.into_iter().collect());
                if self.kept.len() > (bytes / self.site.block as f64) as usize {
                    self.bounded_ns.get_or_insert(world.now_ns());
                    self.kept.pop_front().into_iter().flatten().for_each(|old| world.free(old));
                }
                return;
            }
            Life::Cleared(_) => return self.kept.push_back(sample.into_iter().collect()),
            _ => f64::INFINITY,
        };
        if seconds.is_finite() {
            world.free_after(sample, (seconds * SECOND as f64) as u64);
        } else {
            self.forgotten += u64::from(sample.is_some());
        }
    }

    fn allocate(&mut self, world: &mut World) -> Option<SampleId> {
        self.entries += 1;
        let stack = self.stacks.start + self.entries % self.site.stacks;
        world.allocate(self.entries % 4, stack, self.site.block)
    }

    fn is_due(&mut self, now_ns: u64, period_s: f64) -> bool {
        let is_due = now_ns >= self.next_ns;
        let is_first = self.next_ns == 0;
        if is_due {
            self.next_ns = now_ns + (period_s * SECOND as f64) as u64;
        }
        is_due && !is_first
    }

    fn replace(&mut self, world: &mut World, period_s: f64, bytes: f64) {
        let is_first = self.next_ns == 0;
        if !self.is_due(world.now_ns(), period_s) && !is_first {
            return;
        }
        let count = (bytes / self.site.block as f64) as usize;
        let fresh = (0..count).filter_map(|_| self.allocate(world)).collect();
        self.kept.push_back(fresh);
        if self.kept.len() > 1 {
            self.kept.pop_front().into_iter().flatten().for_each(|old| world.free(old));
        }
    }

    fn ask(&mut self, world: &mut World, bytes: f64) {
        let capacity = (bytes / self.site.block as f64) as usize;
        let keys = 3.0 * capacity as f64;
        let is_hot = world.uniform() < 0.5;
        let key = (world.uniform() * if is_hot { keys / 10.0 } else { keys }) as u64;
        self.lru.serial += 1;
        let serial = self.lru.serial;
        self.lru.uses.push_back((key, serial));
        if let Some((latest, _)) = self.lru.cached.get_mut(&key) {
            *latest = serial;
            return;
        }
        let sample = self.allocate(world).into_iter().collect();
        self.lru.cached.insert(key, (serial, sample));
        if self.lru.cached.len() > capacity {
            self.bounded_ns.get_or_insert(world.now_ns());
            self.lru.evict().into_iter().for_each(|old| world.free(old));
        }
    }

    fn grow(&mut self, world: &mut World, most: f64) {
        self.held += self.site.block as f64;
        let size = self.next_ns.max(4096);
        if self.held > size as f64 && (size as f64) < most {
            self.kept.drain(..).flatten().for_each(|old| world.free(old));
            self.next_ns = 2 * size;
            let sample = world.allocate(0, self.stacks.start, self.next_ns);
            self.kept.push_back(sample.into_iter().collect());
        }
    }

    fn factor(&mut self, world: &mut World, step_ns: u64) -> f64 {
        let now_ns = world.now_ns();
        let (now_s, step_s) = (now_ns as f64 / SECOND as f64, step_ns as f64 / SECOND as f64);
        match self.site.load {
            Load::Steady => 1.0,
            Load::Bursts(period_s) => {
                let is_end = (now_s / period_s).fract() > 1.0 - step_s / period_s * 1.5
                    && now_ns >= self.switch_ns;
                if is_end {
                    self.switch_ns = now_ns + (period_s * 0.5 * SECOND as f64) as u64;
                }
                if is_end { period_s / step_s } else { 0.0 }
            }
            Load::Diurnal { period_s, low } => wave(now_ns, period_s, low),
            Load::OnOff { on_s, off_s } => {
                while now_ns >= self.switch_ns {
                    self.is_on = !self.is_on;
                    let time_s = world.exponential(if self.is_on { on_s } else { off_s });
                    self.switch_ns += (time_s * SECOND as f64) as u64 + 1;
                }
                f64::from(self.is_on)
            }
            Load::From(start_s) => f64::from(now_s >= start_s),
            Load::Until(end_s) => f64::from(now_s < end_s),
            Load::Power(power) => power * (now_s.max(1.0) / 600.0).powf(power - 1.0),
            Load::Fading(time_s) => (-now_s / time_s).exp(),
            Load::Rush { times, from_s, to_s } if (from_s..to_s).contains(&now_s) => times,
            Load::Rush { .. } => 1.0,
            Load::At(times) => {
                let is_now = |&&at_s: &&f64| (now_s..now_s + step_s).contains(&at_s);
                times.iter().filter(is_now).count() as f64 / step_s
            }
        }
    }
}

impl Lru {
    fn evict(&mut self) -> Vec<SampleId> {
        while let Some((key, serial)) = self.uses.pop_front() {
            if self.cached.get(&key).is_some_and(|(latest, _)| *latest == serial) {
                return self.cached.remove(&key).map_or(Vec::new(), |(_, samples)| samples);
            }
        }
        Vec::new()
    }
}

/// Between `low` and 1, first rising from the middle.
fn wave(now_ns: u64, period_s: f64, low: f64) -> f64 {
    let phase = now_ns as f64 / SECOND as f64 / period_s * std::f64::consts::TAU;
    low + (1.0 - low) * (1.0 + phase.sin()) / 2.0
}

fn normal(world: &mut World) -> f64 {
    let radius = (-2.0 * (1.0 - world.uniform()).ln()).sqrt();
    radius * (world.uniform() * std::f64::consts::TAU).cos()
}
