//! What is known of one stack at one moment.

use ramson_format::{LIFETIME_BUCKETS, LIFETIME_SHIFT};
use ramson_profile::{Estimate, SampleUnit};
use serde::Serialize;

/// A sample that is live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveBlock {
    /// When it was allocated, on the clock of `StackHistory::now_ns`.
    pub time_ns: u64,
    /// Requested bytes.
    pub size_bytes: u64,
    /// 1/p, fixed when the sample was taken.
    pub inverse_probability: f64,
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
    /// Weighted bytes allocated since the start.
    pub alloc_space: f64,
    /// Raw counts of freed samples by lifetime, as FORMAT.md has them.
    pub lifetimes: [u64; LIFETIME_BUCKETS],
    /// Samples that are live, in any order.
    pub live: Vec<LiveBlock>,
    /// From an earlier snapshot, if there is one.
    pub measured: Option<MeasuredChange>,
}

/// How old the live bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Ages {
    /// Half of the live bytes are at least this old.
    pub p50_ns: u64,
    /// Age of the oldest live sample.
    pub oldest_ns: u64,
}

/// Lower end of a lifetime bucket; 0 for the first one, which has all shorter lifetimes too.
pub(crate) fn bucket_start_ns(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << (bucket as u32 + LIFETIME_SHIFT) }
}

impl LiveBlock {
    /// Its share of the live bytes or objects.
    pub fn estimate(&self, unit: SampleUnit) -> Estimate {
        Estimate::of_sample(self.size_bytes, self.inverse_probability, unit)
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

    /// Freed samples, raw.
    pub fn freed_samples(&self) -> u64 {
        self.lifetimes.iter().sum()
    }

    /// `None` without a live sample.
    pub fn ages(&self) -> Option<Ages> {
        let weighted =
            |block: &LiveBlock| (self.age_ns(block), block.estimate(SampleUnit::Bytes).value);
        let mut by_age: Vec<(u64, f64)> = self.live.iter().map(weighted).collect();
        by_age.sort_unstable_by_key(|&(age_ns, _)| std::cmp::Reverse(age_ns));
        let half = by_age.iter().map(|(_, bytes)| bytes).sum::<f64>() / 2.0;
        let mut older = 0.0;
        let p50_ns = by_age.iter().find_map(|&(age_ns, bytes)| {
            older += bytes;
            (older >= half).then_some(age_ns)
        });
        Some(Ages { p50_ns: p50_ns?, oldest_ns: by_age.first()?.0 })
    }

    /// How long a byte lives on average, by Little's law: live bytes over the rate of allocation. True for a steady
    /// state; for memory that is never freed it is half of the time observed, or more.
    pub fn mean_lifetime_ns(&self) -> f64 {
        let live = self.inuse(SampleUnit::Bytes).value;
        live / self.alloc_space.max(live).max(1.0) * self.observed_ns() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_bytes_and_not_of_the_samples_is_older_than_the_median_age() {
        let block =
            |time_ns, size_bytes| LiveBlock { time_ns, size_bytes, inverse_probability: 1.0 };
        let live = vec![block(90, 10), block(10, 1000), block(80, 10), block(0, 10)];
        let history = StackHistory { now_ns: 100, live, ..StackHistory::default() };
        assert_eq!(history.ages(), Some(Ages { p50_ns: 90, oldest_ns: 100 }));
        assert_eq!(StackHistory::default().ages(), None);
    }

    #[test]
    fn the_mean_lifetime_is_live_bytes_over_the_rate_of_allocation() {
        let live = vec![LiveBlock { time_ns: 0, size_bytes: 500, inverse_probability: 1.0 }];
        let history =
            StackHistory { now_ns: 1000, alloc_space: 5000.0, live, ..StackHistory::default() };
        assert_eq!(history.mean_lifetime_ns(), 100.0);
    }
}
