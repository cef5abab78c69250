//! How fast a leak has to be to have been found by now.

use crate::growth::NS_PER_HOUR;
use crate::history::{StackHistory, bucket_start_ns};
use crate::persistence::least_kept;
use ramson_format::lifetime_bucket;
use ramson_profile::SampleUnit;
use ramson_profile::format::{format_bytes, format_duration};
use serde::Serialize;
use statrs::distribution::{DiscreteCDF, Poisson};
use std::fmt;

/// Each of two things that hide a leak at the limit does so with this probability: a first sample that comes late, and too few samples that
/// are kept.
const MISSED: f64 = 0.025;
/// A leak that would need more samples than this has too little time left to be judged in.
const MOST_SAMPLES: u32 = 10_000;

/// The smallest steady leak that would have been called one by now with a probability of 95%: of a function that keeps all it allocates,
/// since the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DetectionLimit {
    /// Bytes per hour.
    pub bytes_per_hour: f64,
    /// Samples that such a leak has on average.
    pub samples: u32,
    /// Bytes that one of these stands for: the median of the live samples, and no less than the interval.
    pub bytes_per_sample: f64,
    /// Sampling interval in force.
    pub interval_bytes: u64,
    /// For how long the process was recorded.
    pub observed_ns: u64,
}

impl DetectionLimit {
    /// Returns the limit for a process with these stacks. `None` if no stack could have been judged in that time.
    pub fn of<'a>(
        observed_ns: u64,
        interval_bytes: u64,
        histories: impl IntoIterator<Item = &'a StackHistory>,
        min_age_ns: u64,
    ) -> Option<Self> {
        let would_show = |&samples: &u32| would_show(samples, observed_ns, min_age_ns.max(1));
        let samples = (1..=MOST_SAMPLES).find(would_show)?;
        let bytes_per_sample = bytes_per_sample(histories, interval_bytes);
        let hours = observed_ns as f64 / NS_PER_HOUR;
        let bytes_per_hour = f64::from(samples) * bytes_per_sample / hours;
        Some(Self { bytes_per_hour, samples, bytes_per_sample, interval_bytes, observed_ns })
    }
}

/// `a leak below 980 MiB/h, or one that began later, may not show (3 min, interval 512 KiB)`; in the alternate form `… may not show yet …`.
impl fmt::Display for DetectionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a leak below {}/h, or one that began later, may not show{} ({}, interval {})",
            format_bytes(self.bytes_per_hour),
            if f.alternate() { " yet" } else { "" },
            format_duration(self.observed_ns),
            format_bytes(self.interval_bytes as f64)
        )
    }
}

/// Whether a leak with so many samples on average in that time is called one.
fn would_show(samples: u32, observed_ns: u64, min_age_ns: u64) -> bool {
    let per_ns = f64::from(samples) / observed_ns as f64;
    let latest_first_ns = (-MISSED.ln() / per_ns) as u64;
    let horizon_ns = observed_ns.saturating_sub(latest_first_ns);
    if horizon_ns < min_age_ns {
        return false;
    }
    let settled_ns = bucket_start_ns(lifetime_bucket(horizon_ns / 2));
    // The first sample is one of the kept.
    let least = least_kept(settled_ns, horizon_ns).saturating_sub(1);
    let kept = Poisson::new(per_ns * (horizon_ns - settled_ns) as f64);
    kept.is_ok_and(|kept| kept.cdf(least.saturating_sub(1)) <= MISSED)
}

/// The median of all live samples. No less than the interval in force: they may have been taken before that was changed.
fn bytes_per_sample<'a>(
    histories: impl IntoIterator<Item = &'a StackHistory>,
    interval_bytes: u64,
) -> f64 {
    let live = histories.into_iter().flat_map(|history| &history.live);
    let mut weights: Vec<f64> = live.map(|block| block.estimate(SampleUnit::Bytes).value).collect();
    weights.sort_unstable_by(f64::total_cmp);
    weights.get(weights.len() / 2).copied().unwrap_or(0.0).max(interval_bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LiveBlock, Settings, Verdict, judge};

    const SECOND: u64 = 1_000_000_000;
    const MIN_AGE_NS: u64 = 60 * SECOND;
    const RUNS: u64 = 400;

    /// Uniform in (0, 1], splitmix64.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = self.0;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::MIN_POSITIVE
        }
    }

    /// A leak of blocks of one size, each of which is sampled with p = 1 − e^(−size/interval).
    struct Leak {
        size_bytes: u64,
        interval_bytes: u64,
        observed_ns: u64,
        bytes_per_hour: f64,
    }

    impl Leak {
        fn inverse_probability(&self) -> f64 {
            1.0 / -(-(self.size_bytes as f64) / self.interval_bytes as f64).exp_m1()
        }

        fn history(&self, random: &mut Random) -> Option<StackHistory> {
            let inverse_probability = self.inverse_probability();
            let between_blocks_ns = NS_PER_HOUR * self.size_bytes as f64 / self.bytes_per_hour;
            let mut blocks = 0.0;
            let mut live = Vec::new();
            loop {
                // Blocks from one that is sampled to the next: a geometric distribution.
                let missed = match inverse_probability {
                    1.0 => 0.0,
                    _ => (random.next().ln() / (-1.0 / inverse_probability).ln_1p()).floor(),
                };
                blocks += 1.0 + missed;
                let time_ns = (blocks * between_blocks_ns) as u64;
                if time_ns > self.observed_ns {
                    break;
                }
                live.push(LiveBlock::new(time_ns, self.size_bytes, inverse_probability));
            }
            let first_ns = live.first()?.time_ns;
            let now_ns = self.observed_ns;
            Some(StackHistory { first_ns, now_ns, live, ..StackHistory::default() })
        }

        /// The share of the seeded runs in which it is found.
        fn found(&self) -> f64 {
            let settings = Settings { min_age_ns: MIN_AGE_NS, stacks: 1 };
            let is_found = |seed: &u64| {
                let history = self.history(&mut Random(*seed));
                history.is_some_and(|it| judge(&it, &settings).verdict == Verdict::Growing)
            };
            (0..RUNS).filter(is_found).count() as f64 / RUNS as f64
        }
    }

    #[test]
    fn leak_at_detection_limit_is_found() {
        for (seconds, interval_bytes, size_bytes) in [
            (65, 512 << 10, 100),
            (180, 512 << 10, 100),
            (180, 512 << 10, 300 << 10),
            (180, 64 << 10, 4 << 10),
            (3600, 512 << 10, 100),
            (8 * 3600, 512 << 10, 2 << 20),
            (24 * 3600, 8 << 20, 100),
        ] {
            let observed_ns = seconds * SECOND;
            let leak = |bytes_per_hour: f64| Leak {
                size_bytes,
                interval_bytes,
                observed_ns,
                bytes_per_hour,
            };
            let inverse_probability = leak(1.0).inverse_probability();
            let live = vec![LiveBlock::new(0, size_bytes, inverse_probability)];
            let one = StackHistory { live, ..StackHistory::default() };
            let limit = DetectionLimit::of(observed_ns, interval_bytes, [&one], MIN_AGE_NS);
            let limit = limit.unwrap();
            let found = |times: f64| leak(times * limit.bytes_per_hour).found();
            let case = (seconds, interval_bytes, size_bytes, limit.samples);
            // 400 runs: at 95%, 2.2% are two sigmas.
            assert!(found(1.0) >= 0.95 - 0.022, "{case:?}: {}", found(1.0));
            assert!(found(2.0) >= 0.95, "{case:?}: {}", found(2.0));
            assert!(found(0.25) <= 0.05, "{case:?}: {}", found(0.25));
        }
    }

    #[test]
    fn limit_falls_with_time() {
        let of = |seconds: u64, interval_bytes: u64| {
            let limit = DetectionLimit::of(seconds * SECOND, interval_bytes, [], MIN_AGE_NS);
            limit.map(|it| it.bytes_per_hour / f64::from(1 << 20))
        };
        let limit = of(180, 512 << 10).unwrap();
        assert!((900.0..1100.0).contains(&limit), "{limit}");
        assert_eq!(of(180, 1 << 20), Some(2.0 * limit));
        let hour = of(3600, 512 << 10).unwrap();
        assert!((45.0..55.0).contains(&hour), "{hour}");
        // Nothing is judged before the least age.
        assert_eq!(of(60, 1 << 20), None);
        assert_eq!(of(0, 1 << 20), None);
        assert!(of(61, 1 << 20).unwrap() > 2.0 * of(70, 1 << 20).unwrap());
    }

    #[test]
    fn sample_stands_for_median_bytes() {
        let block = |size_bytes| LiveBlock::new(0, size_bytes, 2.0);
        let live = vec![block(10), block(300), block(1 << 30)];
        let history = StackHistory { live, ..StackHistory::default() };
        assert_eq!(bytes_per_sample([&history], 512), 600.0);
        assert_eq!(bytes_per_sample([&history], 1024), 1024.0);
        assert_eq!(bytes_per_sample([], 7), 7.0);
    }
}
