//! Facts about one stack at one moment.

use ramson_format::{LIFETIME_BUCKETS, LIFETIME_SHIFT, lifetime_bucket};
use ramson_profile::{Estimate, SampleUnit};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A sample that is live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveBlock {
    /// When it was allocated, on the clock of `StackHistory::now_ns`.
    pub time_ns: u64,
    /// What it tells of live bytes.
    pub bytes: Estimate,
    /// 1/p, fixed when the sample was taken.
    pub inverse_probability: f64,
    /// `time_ns` is when it was seen first: it is older, by how much is not known.
    pub is_older: bool,
}

/// Later − earlier live bytes between two snapshots of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredChange {
    /// Bytes, without the error of samples that live in both.
    pub change: Estimate,
    /// Time between the snapshots.
    pub window_ns: u64,
}

/// One stack. Times in nanoseconds of one clock, `first_ns` ≤ `now_ns`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackHistory {
    /// When the process began to be recorded.
    pub start_ns: u64,
    /// When the stack's first sample was taken.
    pub first_ns: u64,
    /// The moment of the snapshot.
    pub now_ns: u64,
    /// Raw counts of freed samples by lifetime, as FORMAT.md has them.
    pub lifetimes: [u64; LIFETIME_BUCKETS],
    /// Samples that are live, in any order.
    pub live: Vec<LiveBlock>,
    /// From an earlier snapshot, if there is one.
    pub measured: Option<MeasuredChange>,
    /// If it was joined from several processes: what each of them has of it, by its number, on the same clock.
    pub processes: BTreeMap<usize, StackHistory>,
}

/// How old the live bytes are.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Ages {
    /// Half of the live bytes are at least this old.
    pub p50_ns: u64,
    /// Mean age of the live bytes.
    pub mean_ns: u64,
    /// Age of the oldest live sample.
    pub oldest_ns: u64,
    /// Live bytes by age, the youngest first; ages without any are left out.
    pub histogram: Vec<AgeBytes>,
}

/// Live bytes of an age.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AgeBytes {
    /// At least this old; a power of two, or 0.
    pub from_ns: u64,
    /// Younger than this.
    pub to_ns: u64,
    /// Live bytes of this age.
    pub bytes: Estimate,
}

/// Lower end of a lifetime bucket; 0 for the first one, which has all shorter lifetimes too.
pub(crate) fn bucket_start_ns(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << (bucket as u32 + LIFETIME_SHIFT) }
}

impl Ages {
    /// Returns the ages of all live blocks of these stacks; `None`: they have no live blocks, or the ages of half of the bytes are not known.
    pub fn of<'a>(histories: impl IntoIterator<Item = &'a StackHistory>) -> Option<Self> {
        let mut older = 0.0;
        let mut by_age: Vec<(u64, Estimate)> = Vec::new();
        for history in histories {
            for block in &history.live {
                let bytes = block.estimate(SampleUnit::Bytes);
                older += if block.is_older { bytes.value } else { 0.0 };
                by_age.push((history.age_ns(block), bytes));
            }
        }
        by_age.sort_unstable_by_key(|&(age_ns, _)| Reverse(age_ns));
        let half = by_age.iter().map(|(_, bytes)| bytes.value).sum::<f64>() / 2.0;
        if older > 0.0 && older >= half {
            return None;
        }
        let mut older = 0.0;
        let p50_ns = by_age.iter().find_map(|&(age_ns, bytes)| {
            older += bytes.value;
            (older >= half).then_some(age_ns)
        });
        let aged: f64 = by_age.iter().map(|&(age_ns, bytes)| age_ns as f64 * bytes.value).sum();
        Some(Self {
            p50_ns: p50_ns?,
            mean_ns: (aged / (2.0 * half)) as u64,
            oldest_ns: by_age.first()?.0,
            histogram: histogram(&by_age),
        })
    }
}

fn histogram(by_age: &[(u64, Estimate)]) -> Vec<AgeBytes> {
    let mut buckets = [(Estimate::default(), false); LIFETIME_BUCKETS];
    for &(age_ns, bytes) in by_age {
        let (sum, is_there) = &mut buckets[lifetime_bucket(age_ns)];
        *sum += bytes;
        *is_there = true;
    }
    let there = buckets.iter().enumerate().filter(|(_, (_, is_there))| *is_there);
    let bytes = |(bucket, &(bytes, _)): (usize, &(Estimate, bool))| AgeBytes {
        from_ns: bucket_start_ns(bucket),
        to_ns: bucket_start_ns(bucket + 1),
        bytes,
    };
    there.map(bytes).collect()
}

impl LiveBlock {
    /// A block of `size_bytes`, as if nothing else were known of live bytes.
    pub fn new(time_ns: u64, size_bytes: u64, inverse_probability: f64) -> Self {
        let bytes = Estimate::of_sample(size_bytes, inverse_probability, SampleUnit::Bytes);
        Self { time_ns, bytes, inverse_probability, is_older: false }
    }

    /// Its share of the live bytes or objects.
    pub fn estimate(&self, unit: SampleUnit) -> Estimate {
        match unit {
            SampleUnit::Bytes => self.bytes,
            SampleUnit::Objects => Estimate::of_sample(1, self.inverse_probability, unit),
        }
    }
}

impl StackHistory {
    /// Time since the first sample.
    pub fn observed_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.first_ns)
    }

    /// Age of one block; 0 for one that is newer than the snapshot's moment.
    pub fn age_ns(&self, block: &LiveBlock) -> u64 {
        self.now_ns.saturating_sub(block.time_ns)
    }

    /// Live bytes or objects.
    pub fn inuse(&self, unit: SampleUnit) -> Estimate {
        self.live.iter().map(|block| block.estimate(unit)).sum()
    }

    /// Ages of the live samples, ascending.
    pub(crate) fn ascending_ages(&self) -> Vec<u64> {
        let mut ages: Vec<u64> = self.live.iter().map(|block| self.age_ns(block)).collect();
        ages.sort_unstable();
        ages
    }

    /// Freed samples, raw.
    pub fn freed_samples(&self) -> u64 {
        self.lifetimes.iter().sum()
    }

    /// `None` without a live sample.
    pub fn ages(&self) -> Option<Ages> {
        Ages::of([self])
    }

    /// How long the freed samples had lived on average, each taken for the middle of its bucket; `None` if none was freed.
    pub fn mean_lifetime_of_freed_ns(&self) -> Option<u64> {
        let freed = self.freed_samples();
        let middle =
            |bucket| (bucket_start_ns(bucket) as f64 + bucket_start_ns(bucket + 1) as f64) / 2.0;
        let sum: f64 = self
            .lifetimes
            .iter()
            .enumerate()
            .map(|(bucket, &count)| count as f64 * middle(bucket))
            .sum();
        (freed > 0).then(|| (sum / freed as f64) as u64)
    }

    /// All of these as if they were one; `None`: there are none.
    pub fn joined<'a>(histories: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut histories = histories.into_iter();
        let mut joined = histories.next()?.clone();
        histories.for_each(|history| joined.join(history));
        Some(joined)
    }

    /// Adds what else was allocated at the same time on the same clock.
    pub fn join(&mut self, other: &Self) {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.now_ns = self.now_ns.max(other.now_ns);
        for (sum, &count) in self.lifetimes.iter_mut().zip(&other.lifetimes) {
            *sum = sum.saturating_add(count);
        }
        self.live.extend(&other.live);
        self.measured = match (self.measured, other.measured) {
            (Some(one), Some(other)) => Some(MeasuredChange {
                change: one.change + other.change,
                window_ns: one.window_ns.max(other.window_ns),
            }),
            (one, other) => one.or(other),
        };
        for (&number, part) in &other.processes {
            self.processes
                .entry(number)
                .and_modify(|known| known.join(part))
                .or_insert_with(|| part.clone());
        }
    }

    /// The same as what the process of this number has of several processes' history.
    pub fn of_process(mut self, number: usize) -> Self {
        self.processes = BTreeMap::from([(number, self.clone())]);
        self
    }

    /// The same with what `change` makes of it and of each process's part.
    pub(crate) fn changed(&self, change: &dyn Fn(&Self) -> Self) -> Self {
        let parts = self.processes.iter().map(|(&number, part)| (number, change(part)));
        Self { processes: parts.collect(), ..change(self) }
    }

    /// With these live blocks only, without its processes.
    pub(crate) fn with(&self, is_wanted: impl Fn(&LiveBlock) -> bool) -> Self {
        let live = self.live.iter().copied().filter(is_wanted).collect();
        Self { live, processes: BTreeMap::new(), ..*self }
    }

    /// As it was so long ago, as far as it is still known.
    pub(crate) fn before(&self, ago_ns: u64) -> Self {
        let now_ns = self.now_ns.saturating_sub(ago_ns);
        self.changed(&|it| Self {
            now_ns,
            measured: None,
            ..it.with(|block| it.age_ns(block) >= ago_ns)
        })
    }

    /// The same history on a clock that is ahead by this much.
    pub fn shift(&mut self, by_ns: u64) {
        self.start_ns += by_ns;
        self.first_ns = self.first_ns.saturating_add(by_ns);
        self.now_ns += by_ns;
        self.live.iter_mut().for_each(|block| block.time_ns += by_ns);
        self.processes.values_mut().for_each(|part| part.shift(by_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_age_counts_bytes() {
        let block = |time_ns, size_bytes| LiveBlock::new(time_ns, size_bytes, 1.0);
        let live = vec![block(90, 10), block(10, 1000), block(80, 10), block(0, 10)];
        let history = StackHistory { now_ns: 100, live, ..StackHistory::default() };
        let ages = history.ages().unwrap();
        assert_eq!((ages.p50_ns, ages.mean_ns, ages.oldest_ns), (90, 88, 100));
        assert_eq!(StackHistory::default().ages(), None);
    }

    #[test]
    fn histogram_holds_every_live_byte() {
        const SECOND: u64 = 1 << 30;
        let block = |age_ns, size_bytes| LiveBlock::new(1000 * SECOND - age_ns, size_bytes, 2.0);
        let live = vec![block(SECOND, 10), block(SECOND * 2 - 1, 20), block(64 * SECOND, 5)];
        let one = StackHistory { now_ns: 1000 * SECOND, live, ..StackHistory::default() };
        let other = StackHistory { live: vec![block(0, 7)], ..one.clone() };
        let found = Ages::of([&one, &other]).unwrap().histogram;
        let found: Vec<_> = found.iter().map(|it| (it.from_ns, it.to_ns, it.bytes.value)).collect();
        let expected = [
            (0, bucket_start_ns(1), 14.0),
            (SECOND, 2 * SECOND, 60.0),
            (64 * SECOND, 128 * SECOND, 10.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn mean_lifetime_counts_freed_only() {
        let live = vec![LiveBlock::new(0, 1 << 30, 1.0)];
        let mut history = StackHistory { now_ns: 3_600 << 30, live, ..StackHistory::default() };
        assert_eq!(history.mean_lifetime_of_freed_ns(), None);
        history.lifetimes[lifetime_bucket(1 << 32)] = 9;
        history.lifetimes[lifetime_bucket(1 << 33)] = 3;
        let expected = (9.0 * 1.5 * (1u64 << 32) as f64 + 3.0 * 1.5 * (1u64 << 33) as f64) / 12.0;
        assert_eq!(history.mean_lifetime_of_freed_ns(), Some(expected as u64));
    }

    #[test]
    fn joined_histories_keep_all_samples() {
        let block = |time_ns| LiveBlock::new(time_ns, 8, 1.0);
        let mut one = StackHistory {
            start_ns: 5,
            first_ns: 90,
            now_ns: 100,
            live: vec![block(90)],
            ..StackHistory::default()
        };
        let mut other = StackHistory { first_ns: 10, live: vec![block(10)], ..one.clone() };
        other.lifetimes[3] = 4;
        one.join(&other);
        assert_eq!((one.start_ns, one.first_ns, one.live.len(), one.lifetimes[3]), (5, 10, 2, 4));
        one.shift(1000);
        assert_eq!((one.now_ns, one.observed_ns(), one.age_ns(&one.live[0])), (1100, 90, 10));
    }
}
