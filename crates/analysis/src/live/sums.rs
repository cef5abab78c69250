//! Sums of each stack at one moment, which rows add up: live bytes, how they changed since the mark, how fast the stack
//! allocates, how old its live bytes are.

use crate::extents::{self, Live};
use ramson_format::Kind;
use ramson_profile::{Estimate, SampleUnit};
use ramson_reader::{Snapshot, Stack};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::iter::Sum;
use std::ops::AddAssign;

/// Rates are of the last seconds, at most these.
const RATE_WINDOW_NS: u64 = 10_000_000_000;
/// Counters are kept this far apart.
const RATE_STEP_NS: u64 = 1_000_000_000;

/// Sums of one stack, or of all stacks of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Bytes.
    pub live: Estimate,
    /// Blocks.
    pub live_objects: Estimate,
    /// The same bytes as if nothing but the samples were known: changes are between two such estimates.
    sampled: Estimate,
    /// Live bytes at the mark, as `sampled`.
    marked: Estimate,
    /// Variance of what was live then and is still.
    kept_variance: f64,
    /// NaN: not known.
    pub alloc_objects_per_s: f64,
    /// NaN: not known.
    pub alloc_bytes_per_s: f64,
    /// NaN: not known.
    pub freed_bytes_per_s: f64,
    /// Live bytes times their age in ns.
    aged: f64,
    /// Age of the oldest live sample, in ns; 0: there is none.
    pub oldest_ns: u64,
}

/// The same as an answer; null: not known.
#[derive(Serialize, JsonSchema)]
struct SumsAnswer {
    live: Estimate,
    live_objects: Estimate,
    change: Estimate,
    alloc_objects_per_s: Option<f64>,
    alloc_bytes_per_s: Option<f64>,
    freed_bytes_per_s: Option<f64>,
    mean_age_ns: Option<u64>,
    oldest_ns: Option<u64>,
}

impl Serialize for Sums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rate = |per_s: f64| (!per_s.is_nan()).then_some(per_s);
        let answer = SumsAnswer {
            live: self.live,
            live_objects: self.live_objects,
            change: self.change(),
            alloc_objects_per_s: rate(self.alloc_objects_per_s),
            alloc_bytes_per_s: rate(self.alloc_bytes_per_s),
            freed_bytes_per_s: rate(self.freed_bytes_per_s),
            mean_age_ns: self.mean_age_ns(),
            oldest_ns: (self.oldest_ns > 0).then_some(self.oldest_ns),
        };
        answer.serialize(serializer)
    }
}

impl JsonSchema for Sums {
    fn schema_name() -> Cow<'static, str> {
        "Sums".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SumsAnswer::json_schema(generator)
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.live += other.live;
        self.live_objects += other.live_objects;
        self.sampled += other.sampled;
        self.marked += other.marked;
        self.kept_variance += other.kept_variance;
        self.alloc_objects_per_s += other.alloc_objects_per_s;
        self.alloc_bytes_per_s += other.alloc_bytes_per_s;
        self.freed_bytes_per_s += other.freed_bytes_per_s;
        self.aged += other.aged;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
    }
}

impl Sum for Sums {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

impl Sums {
    /// Live bytes now − at the mark. Blocks that are live at both moments cancel, value and error (docs/internals/sampling.md).
    pub fn change(&self) -> Estimate {
        let variance = self.sampled.variance + self.marked.variance - 2.0 * self.kept_variance;
        // Infinite minus infinite: what was lost is in neither.
        let variance = if variance.is_nan() { self.sampled.variance } else { variance.max(0.0) };
        Estimate::new(self.sampled.value - self.marked.value, variance)
    }

    /// Mean age of the live bytes; `None` where nothing is live.
    pub fn mean_age_ns(&self) -> Option<u64> {
        (self.live.value > 0.0).then(|| (self.aged / self.live.value) as u64)
    }

    /// Nothing live now or at the mark, nothing allocated lately.
    pub fn is_nothing(&self) -> bool {
        let is_idle = self.alloc_objects_per_s.is_nan() || self.alloc_objects_per_s == 0.0;
        self.live.is_nothing() && self.marked.is_nothing() && is_idle
    }

    /// Nothing, with rates that are not known.
    fn without_rates() -> Self {
        let unknown = f64::NAN;
        Self {
            alloc_objects_per_s: unknown,
            alloc_bytes_per_s: unknown,
            freed_bytes_per_s: unknown,
            ..Self::default()
        }
    }
}

/// The part of one thread in one stack. Rates are counted per stack only: here they are not known.
pub struct Piece {
    /// Number of the stack.
    pub stack: usize,
    /// The thread.
    pub tid: u32,
    /// Sums of the thread at the stack.
    pub sums: Sums,
}

/// The stacks of one process at the latest moment, and what is remembered of earlier ones.
#[derive(Default)]
pub struct Moments {
    kind: Option<Kind>,
    /// By number of the stack.
    pub stacks: Vec<Sums>,
    /// All stacks.
    pub total: Sums,
    /// One for each live sample.
    live: Vec<Piece>,
    /// Live bytes at the mark, by number of the stack, and by thread and stack.
    marked_stacks: Vec<Estimate>,
    marked: Vec<Piece>,
    mark_ns: u64,
    past: VecDeque<Counters>,
    /// Time of the latest snapshot in ns, on the clock of the snapshot's times.
    pub now_ns: u64,
}

/// Counters of each stack since the start: objects and bytes allocated, bytes freed.
struct Counters {
    at_ns: u64,
    stacks: Vec<[f64; 3]>,
}

impl Moments {
    /// Creates the moments of one kind of memory, or of both, before the first one.
    pub fn new(kind: Option<Kind>) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Takes the next snapshot, of `now_ns` on the clock of its times. The first one is the mark.
    pub fn update(&mut self, snapshot: &Snapshot, now_ns: u64) {
        let is_first = self.past.is_empty();
        self.now_ns = now_ns;
        self.live = extents::live(snapshot, self.kind).map(|live| self.piece(&live)).collect();
        let mut stacks = vec![Sums::default(); snapshot.stacks.len()];
        for piece in &self.live {
            stacks[piece.stack] += piece.sums;
        }
        for (stack, &marked) in stacks.iter_mut().zip(&self.marked_stacks) {
            stack.marked = marked;
        }
        self.stacks = stacks;
        self.rate(snapshot);
        if is_first {
            self.set_mark();
        }
        self.total = self.stacks.iter().copied().sum();
    }

    /// From here on, changes are since now.
    pub fn set_mark(&mut self) {
        let mut marked: HashMap<(u32, usize), Sums> = HashMap::new();
        for Piece { tid, stack, sums } in &mut self.live {
            sums.kept_variance = sums.sampled.variance;
            let new = marked.entry((*tid, *stack)).or_insert_with(Sums::without_rates);
            new.marked += sums.sampled;
        }
        for stack in &mut self.stacks {
            stack.marked = stack.sampled;
            stack.kept_variance = stack.sampled.variance;
        }
        self.marked =
            marked.into_iter().map(|((tid, stack), sums)| Piece { stack, tid, sums }).collect();
        self.marked_stacks = self.stacks.iter().map(|stack| stack.sampled).collect();
        self.mark_ns = self.now_ns;
        self.total = self.stacks.iter().copied().sum();
    }

    /// Time since the mark.
    pub fn since_mark_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.mark_ns)
    }

    /// How long rates have been measured; 0: not yet.
    pub fn rate_window_ns(&self) -> u64 {
        self.past.front().map_or(0, |first| self.now_ns.saturating_sub(first.at_ns))
    }

    /// Iterates over the parts of each thread, now and at the mark, by stack.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.live.iter().chain(&self.marked)
    }

    fn piece(&self, live: &Live) -> Piece {
        let age_ns = self.now_ns.saturating_sub(live.monotonic_ns);
        let bytes = live.estimate(SampleUnit::Bytes);
        let sampled = live.sampled();
        // Whatever is live now and was allocated before the mark was live then.
        let is_kept = live.monotonic_ns <= self.mark_ns;
        let sums = Sums {
            live: bytes,
            sampled,
            live_objects: live.estimate(SampleUnit::Objects),
            kept_variance: if is_kept { sampled.variance } else { 0.0 },
            aged: bytes.value * age_ns as f64,
            oldest_ns: age_ns.max(1),
            ..Sums::without_rates()
        };
        Piece { stack: live.stack, tid: live.tid, sums }
    }

    fn rate(&mut self, snapshot: &Snapshot) {
        let kind = self.kind;
        let counters = |stack: &Stack| {
            if kind.is_none_or(|kind| stack.kind() == kind) {
                [stack.alloc_objects, stack.alloc_space, stack.freed_space]
            } else {
                [0.0; 3]
            }
        };
        while self.past.len() > 1 && self.past[1].at_ns + RATE_WINDOW_NS <= self.now_ns {
            self.past.pop_front();
        }
        let seconds = self.rate_window_ns() as f64 / 1e9;
        let before = self.past.front().map_or(&[][..], |past| &past.stacks);
        for (number, stack) in self.stacks.iter_mut().enumerate() {
            let now = counters(&snapshot.stacks[number]);
            let before = before.get(number).copied().unwrap_or_default();
            let rate = |counter: usize| match seconds {
                0.0 => f64::NAN,
                _ => (now[counter] - before[counter]).max(0.0) / seconds,
            };
            stack.alloc_objects_per_s = rate(0);
            stack.alloc_bytes_per_s = rate(1);
            stack.freed_bytes_per_s = rate(2);
        }
        if self.past.back().is_none_or(|last| last.at_ns + RATE_STEP_NS <= self.now_ns) {
            let stacks = snapshot.stacks.iter().map(counters).collect();
            self.past.push_back(Counters { at_ns: self.now_ns, stacks });
        }
    }
}
