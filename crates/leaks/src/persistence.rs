//! Whether what grew old is ever freed, and whether it still becomes more: the evidence of growth without bound that one
//! snapshot holds.
//!
//! Look back over a *horizon* H. The settled age A is a bucket's lower end in (H/4, H/2]. Of the samples that reached A, `kept` are
//! live (with an age in [A, H]) and `freed` were freed, at whatever time of the process's life: of a cache that evicts, of a
//! sawtooth that was cleared, of sessions that end, the share that is freed grows towards 1; of a leak it stays at 0. And a
//! leak adds to the kept ones at a steady rate, while a table that was built once does not.

use crate::history::{StackHistory, bucket_start_ns};
use ramson_format::lifetime_bucket;
use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF, Poisson};

/// Of what reaches the settled age at least this share has to be kept …
const LEAST_KEPT_SHARE: f64 = 0.9;
/// … with this confidence. With nothing freed that takes 29 samples: 0.9^29 < 0.05.
const CONFIDENCE: f64 = 0.95;
/// And no larger share may have been freed: with thousands of samples a cache that has just filled is within the bound above.
const MOST_FREED_SHARE: f64 = 0.05;
/// Parts of the time from H to A that have to show the same rate.
const SLICES: usize = 3;
/// A slice is too empty if so few would be seen with less than this probability at half of the common rate.
const LEAST_PROBABILITY: f64 = 0.01;
/// Horizons tried: all of the time, its half, its quarter, its eighth. A leak need not be as old as its stack.
const HORIZONS: u32 = 4;

/// What one horizon shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Persistence {
    /// How far back it looks.
    pub horizon_ns: u64,
    /// The age from which samples count as settled.
    pub settled_ns: u64,
    /// Live samples between settled age and horizon.
    pub kept: u64,
    /// Samples freed at or beyond the settled age.
    pub freed: u64,
    /// 95 % lower bound of the share that is kept.
    pub kept_share_at_least: f64,
    /// Whether the kept ones were allocated at a steady rate that goes on.
    pub is_steady: bool,
}

impl Persistence {
    /// The longest horizon, not below `min_age_ns`, that shows growth; else what the longest of all shows. `None` if the stack
    /// has not been observed for as long as `min_age_ns`.
    pub fn of(history: &StackHistory, min_age_ns: u64) -> Option<Self> {
        let observed = history.observed_ns();
        let horizons = (0..HORIZONS).map(|halvings| observed >> halvings);
        let mut seen = horizons
            .take_while(|&horizon| horizon >= min_age_ns.max(1))
            .map(|horizon| Self::at(history, horizon));
        let longest = seen.next()?;
        if longest.shows_growth() {
            return Some(longest);
        }
        Some(seen.find(Self::shows_growth).unwrap_or(longest))
    }

    fn at(history: &StackHistory, horizon_ns: u64) -> Self {
        let bucket = lifetime_bucket(horizon_ns / 2);
        let settled_ns = bucket_start_ns(bucket);
        let freed: u64 = history.lifetimes[bucket..].iter().sum();
        let (mut slices, mut young, mut kept) = ([0u64; SLICES], 0u64, 0u64);
        let span_ns = (horizon_ns - settled_ns).max(1);
        for age_ns in history.live.iter().map(|block| history.age_ns(block)) {
            if age_ns < settled_ns {
                young += 1;
            } else if age_ns <= horizon_ns {
                let at = (age_ns - settled_ns) as f64 / span_ns as f64 * SLICES as f64;
                slices[(at as usize).min(SLICES - 1)] += 1;
                kept += 1;
            }
        }
        let expected_young = kept as f64 * settled_ns as f64 / span_ns as f64;
        let is_steady = !is_too_empty(young, expected_young)
            && slices
                .iter()
                .all(|&count| !is_too_empty(count, (kept - count) as f64 / (SLICES - 1) as f64));
        let kept_share_at_least = lower_bound(kept, freed);
        Self { horizon_ns, settled_ns, kept, freed, kept_share_at_least, is_steady }
    }

    /// Whether nearly all that reaches the settled age is kept.
    pub fn is_kept(&self) -> bool {
        let reached = self.kept + self.freed;
        let is_rarely_freed = self.freed as f64 <= MOST_FREED_SHARE * reached as f64;
        let is_sure = Binomial::new(1.0 - LEAST_KEPT_SHARE, reached)
            .is_ok_and(|freed| reached > 0 && freed.cdf(self.freed) <= 1.0 - CONFIDENCE);
        is_rarely_freed && is_sure
    }

    /// The evidence of a leak: it is kept, and becomes more steadily.
    pub fn shows_growth(&self) -> bool {
        self.is_steady && self.is_kept()
    }

    /// Whether so few samples reached the settled age that neither answer would be sure.
    pub fn is_scarce(&self) -> bool {
        Binomial::new(1.0 - LEAST_KEPT_SHARE, self.kept + self.freed)
            .is_ok_and(|freed| freed.cdf(0) > 1.0 - CONFIDENCE)
    }
}

fn is_too_empty(count: u64, expected: f64) -> bool {
    Poisson::new(expected / 2.0).is_ok_and(|half| half.cdf(count) < LEAST_PROBABILITY)
}

/// Clopper and Pearson's one-sided bound of the share of the kept.
fn lower_bound(kept: u64, freed: u64) -> f64 {
    if kept == 0 {
        return 0.0;
    }
    Beta::new(kept as f64, freed as f64 + 1.0)
        .map_or(0.0, |share| share.inverse_cdf(1.0 - CONFIDENCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LiveBlock;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1000 * SECOND;

    fn history(ages_s: impl Iterator<Item = u64>, freed: &[(u64, u64)]) -> StackHistory {
        let block = |age_s| LiveBlock {
            time_ns: NOW - age_s * SECOND,
            size_bytes: 100,
            inverse_probability: 5000.0,
        };
        let live = ages_s.map(block).collect();
        let mut history = StackHistory { now_ns: NOW, live, ..StackHistory::default() };
        for &(lifetime_s, count) in freed {
            history.lifetimes[lifetime_bucket(lifetime_s * SECOND)] += count;
        }
        history
    }

    fn shows_growth(history: &StackHistory) -> bool {
        Persistence::of(history, 60 * SECOND).unwrap().shows_growth()
    }

    #[test]
    fn kept_and_steady_is_growth_and_churn_beside_it_does_not_matter() {
        assert!(shows_growth(&history((0..1000).step_by(20), &[])));
        assert!(shows_growth(&history((0..1000).step_by(20), &[(1, 1_000_000)])));
    }

    #[test]
    fn frees_of_old_blocks_speak_against_growth() {
        assert!(!shows_growth(&history((0..1000).step_by(20), &[(300, 6)])));
        assert!(!shows_growth(&history((0..900).step_by(10), &[(900, 10)])));
    }

    #[test]
    fn what_was_built_once_or_has_stopped_is_not_growth() {
        assert!(!shows_growth(&history(900..1000, &[])));
        assert!(!shows_growth(&history(500..1000, &[])));
    }

    #[test]
    fn a_leak_that_began_late_in_the_stack_s_life_is_found_at_a_shorter_horizon() {
        let found = Persistence::of(&history((0..500).step_by(5), &[(1, 999)]), SECOND).unwrap();
        assert!(found.shows_growth());
        assert_eq!(found.horizon_ns, 500 * SECOND);
    }

    #[test]
    fn twenty_nine_kept_samples_are_enough_and_twenty_eight_are_not() {
        let of = |kept, freed| {
            let (horizon_ns, settled_ns) = (2, 1);
            let kept_share_at_least = lower_bound(kept, freed);
            Persistence {
                horizon_ns,
                settled_ns,
                kept,
                freed,
                kept_share_at_least,
                is_steady: true,
            }
        };
        assert!(of(29, 0).is_kept() && !of(28, 0).is_kept() && of(28, 0).is_scarce());
        assert!(!of(29, 1).is_kept() && of(46, 1).is_kept());
        // The bound alone would let a young cache with many samples pass.
        assert!(of(4000, 360).kept_share_at_least > 0.9 && !of(4000, 360).is_kept());
        // The bound and the test say the same.
        assert!(of(29, 0).kept_share_at_least > 0.9 && of(28, 0).kept_share_at_least < 0.9);
        assert!(!of(0, 0).is_kept());
        for (kept, freed) in [(1, 0), (1_000_000, 1000), (10_000_000, 10_000_000), (0, 1 << 40)] {
            let seen = of(kept, freed);
            let share = kept as f64 / (kept + freed) as f64;
            assert!((0.0..=share).contains(&seen.kept_share_at_least), "{seen:?}");
            assert!(seen.is_kept() == (seen.kept_share_at_least >= 0.9), "{seen:?}");
            assert!(kept < 100 || seen.kept_share_at_least > share - 0.001, "{seen:?}");
        }
    }

    #[test]
    fn slices_of_millions_are_compared_as_those_of_tens_are() {
        for expected in [20.0, 2e3, 2e6, 2e9] {
            assert!(!is_too_empty(expected as u64, expected));
            assert!(is_too_empty((expected / 20.0) as u64, expected));
        }
        assert!(!is_too_empty(0, 0.0) && !is_too_empty(0, 8.0) && is_too_empty(0, 10.0));
    }
}
