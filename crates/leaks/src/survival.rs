//! The survival curve: which share of a stack's samples is still live at an age. A life table over the log2 buckets of the
//! profile file; the living are censored at their age (docs/internals/leaks.md).

use crate::history::{StackHistory, bucket_start_ns};
use ramson_format::{LIFETIME_BUCKETS, lifetime_bucket};
use ramson_profile::NORMAL_QUANTILE_975;
use serde::Serialize;

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SurvivalPoint {
    /// Upper end of a bucket of lifetimes.
    pub age_ns: u64,
    /// Estimated share, 0 to 1, that lives longer.
    pub share: f64,
}

/// The curve, up to the greatest age that anything reached.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Survival {
    /// Ages ascend, shares never do.
    #[serde(rename = "curve")]
    pub points: Vec<SurvivalPoint>,
    /// Share that was not freed at the end of the curve.
    pub never_freed: f64,
    /// 95% interval of `never_freed`: Greenwood's variance on the scale of log(−log).
    #[serde(rename = "interval_95")]
    pub interval: (f64, f64),
}

impl Survival {
    /// `None` without a sample, live or freed.
    pub fn of(history: &StackHistory) -> Option<Self> {
        let mut living = [0u64; LIFETIME_BUCKETS];
        for block in &history.live {
            living[lifetime_bucket(history.age_ns(block))] += 1;
        }
        let freed = &history.lifetimes;
        let last = (0..LIFETIME_BUCKETS).rfind(|&bucket| living[bucket] + freed[bucket] > 0)?;
        let total: u64 = living.iter().chain(freed).sum();
        let mut reached = total;
        let mut share = 1.0;
        let mut greenwood = 0.0;
        let mut points = Vec::with_capacity(last + 1);
        for bucket in 0..=last {
            let deaths = freed[bucket] as f64;
            // Those who are that old now were at risk for half of the bucket on average.
            let at_risk = reached as f64 - living[bucket] as f64 / 2.0;
            if deaths > 0.0 {
                share *= 1.0 - deaths / at_risk;
                greenwood += deaths / (at_risk * (at_risk - deaths));
            }
            reached -= living[bucket] + freed[bucket];
            points.push(SurvivalPoint { age_ns: bucket_start_ns(bucket + 1), share });
        }
        Some(Self { points, never_freed: share, interval: interval(share, greenwood, total) })
    }
}

fn interval(share: f64, greenwood: f64, total: u64) -> (f64, f64) {
    // Exact bound on the rest if n samples of n agree: 0.025 = share^n.
    let nearly_all = 0.025f64.powf(1.0 / total as f64);
    if share >= 1.0 {
        return (nearly_all, 1.0);
    }
    if share <= 0.0 || !greenwood.is_finite() {
        return (0.0, 1.0 - nearly_all);
    }
    let spread = NORMAL_QUANTILE_975 * greenwood.sqrt() / share.ln().abs();
    (share.powf(spread.exp()), share.powf((-spread).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LiveBlock;

    const SECOND: u64 = 1_000_000_000;

    fn history(live_ages: &[u64], freed: &[(u64, u64)]) -> StackHistory {
        let now_ns = 100_000 * SECOND;
        let block = |&age_ns: &u64| LiveBlock::new(now_ns - age_ns, 1, 1.0);
        let mut history = StackHistory { now_ns, ..StackHistory::default() };
        history.live = live_ages.iter().map(block).collect();
        for &(lifetime_ns, count) in freed {
            history.lifetimes[lifetime_bucket(lifetime_ns)] += count;
        }
        history
    }

    #[test]
    fn live_blocks_count_as_censored() {
        // 10 are freed early; of 90 others 80 are still young, 10 old. Not 10% but 90% live on.
        let ages = [[2 * SECOND; 80].as_slice(), &[5000 * SECOND; 10]].concat();
        let survival = Survival::of(&history(&ages, &[(1000, 10)])).unwrap();
        assert!((survival.never_freed - 0.9).abs() < 1e-12, "{survival:?}");
        assert!(survival.interval.0 > 0.8 && survival.interval.1 < 0.96, "{survival:?}");
        // Within one bucket they were at risk for half of it: 10 of 30 − 20/2.
        let survival = Survival::of(&history(&[3 * SECOND; 20], &[(3 * SECOND, 10)])).unwrap();
        assert_eq!(survival.never_freed, 0.5);
    }

    #[test]
    fn extreme_shares_have_one_sided_intervals() {
        let none = Survival::of(&history(&[SECOND; 29], &[])).unwrap();
        assert_eq!((none.never_freed, none.interval.1), (1.0, 1.0));
        assert!((none.interval.0 - 0.8806).abs() < 1e-3, "{none:?}");
        let all = Survival::of(&history(&[], &[(SECOND, 29)])).unwrap();
        assert_eq!((all.never_freed, all.interval.0), (0.0, 0.0));
        assert!(Survival::of(&history(&[], &[])).is_none());
    }

    #[test]
    fn shares_never_ascend_and_ages_do() {
        let freed: Vec<(u64, u64)> = (0..20).map(|power| (1u64 << (16 + power), 5)).collect();
        let survival = Survival::of(&history(&[SECOND; 7], &freed)).unwrap();
        for pair in survival.points.windows(2) {
            assert!(pair[0].age_ns < pair[1].age_ns && pair[0].share >= pair[1].share);
        }
    }
}
