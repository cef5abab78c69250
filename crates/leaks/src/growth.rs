//! How fast a stack's live bytes become more.

use crate::history::StackHistory;
use crate::persistence::Persistence;
use ramson_profile::{Estimate, SampleUnit};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// Nanoseconds of an hour.
pub const NS_PER_HOUR: f64 = 3.6e12;
/// Chance that any of the stacks is called significant although none grows.
const FALSE_ALARMS: f64 = 0.01;

/// Live bytes per hour.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Growth {
    /// Bytes per hour, with its variance.
    #[serde(rename = "bytes_per_hour")]
    pub per_hour: Estimate,
    /// The time that it was taken over.
    pub window_ns: u64,
    /// Taken between two snapshots; otherwise from the allocation times of the kept samples.
    pub is_measured: bool,
    /// Above 0 with 99% confidence for all stacks together (Bonferroni).
    pub is_significant: bool,
}

impl Growth {
    /// The measured one if there is one.
    pub fn of(history: &StackHistory, persistence: &Persistence, stacks: usize) -> Option<Self> {
        let growth = match history.measured {
            Some(measured) if measured.window_ns > 0 => {
                Self::new(measured.change, measured.window_ns, stacks)
            }
            _ => Self::of_kept(history, persistence, stacks)?,
        };
        Some(Self { is_measured: history.measured.is_some(), ..growth })
    }

    /// Bytes allocated between horizon and settled age and still live, over that time or the part since the first of them: what a
    /// time so far back has added for good, if none of it is freed later.
    pub fn of_kept(
        history: &StackHistory,
        persistence: &Persistence,
        stacks: usize,
    ) -> Option<Self> {
        let Persistence { horizon_ns, settled_ns, .. } = *persistence;
        // Memory that the function allocated at the start is no growth; it is in the oldest third, if anywhere.
        let window_ns = horizon_ns.checked_sub(settled_ns)? / 3 * 2;
        // It may have begun later: then its first sample ends the time, and is not one of those that came in it.
        let first_ns = history.oldest_ns(horizon_ns).unwrap_or(0).checked_sub(settled_ns);
        let window_ns = window_ns.min(first_ns.filter(|&ns| ns > 0).unwrap_or(window_ns));
        let window = settled_ns..settled_ns + window_ns;
        let kept = history.live.iter().filter(|block| window.contains(&history.age_ns(block)));
        let bytes: Estimate = kept.map(|block| block.estimate(SampleUnit::Bytes)).sum();
        if window_ns == 0 {
            return None;
        }
        Some(Self::new(bytes, window_ns, stacks))
    }

    fn new(change: Estimate, window_ns: u64, stacks: usize) -> Self {
        let per_hour = change.scaled(NS_PER_HOUR / window_ns as f64);
        let confidence = 1.0 - FALSE_ALARMS / stacks.max(1) as f64;
        let deviations =
            per_hour.error_variance().sqrt() * Normal::standard().inverse_cdf(confidence);
        let is_significant = per_hour.value > deviations;
        Self { per_hour, window_ns, is_measured: false, is_significant }
    }

    /// Ends of the 95% interval.
    pub fn interval(&self) -> (f64, f64) {
        let half_width = self.per_hour.half_width_95();
        (self.per_hour.value - half_width, self.per_hour.value + half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_stacks_ask_for_more_evidence() {
        let change = Estimate::new(3.5, 1.0);
        let of = |stacks| Growth::new(change, NS_PER_HOUR as u64 / 2, stacks);
        assert!(of(1).is_significant && !of(1000).is_significant);
        assert_eq!(of(1).per_hour, Estimate::new(7.0, 4.0));
    }

    #[test]
    fn a_loss_is_never_significant_growth() {
        assert!(!Growth::new(Estimate::exact(-5.0), 1, 1).is_significant);
        assert!(!Growth::new(Estimate::exact(0.0), 1, 1).is_significant);
    }
}
