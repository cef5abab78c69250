//! Whether what grew old is ever freed, and whether it still becomes more: the evidence of growth without bound that one
//! snapshot holds.
//!
//! Look back over a *horizon* H. The settled age A is a bucket's lower end in (H/4, H/2]. Among the samples that reached A, `kept` are
//! live (with an age in [A, H]) and `freed` were freed, at whatever time of the process's life. The share that is freed grows towards 1
//! for a cache that evicts, a sawtooth that was cleared, or sessions that end; for a leak it stays at 0. And a leak adds to the kept ones
//! at a steady rate, while a table that was built once does not.

use crate::history::{StackHistory, bucket_start_ns};
use crate::lasting::Lasting;
use ramson_format::lifetime_bucket;
use serde::Serialize;
use statrs::distribution::{Beta, ContinuousCDF, DiscreteCDF, Poisson};
use std::ops::Range;

/// A cache must not pass for a leak when it has been full for this part of the time that it took to fill …
const FULL_PART: f64 = 0.1;
/// … except with this probability at most, however often it is judged.
const FALSE_ALARMS: f64 = 0.001;
/// Largest share that a leak frees of the memory that grew old.
pub(crate) const FREED_BY_A_LEAK: f64 = 0.01;
/// Confidence of the lower bound that is shown.
const CONFIDENCE: f64 = 0.95;
/// Parts of the time from H to A that are compared with each other.
const SLICES: u64 = 3;
/// Horizons tried: all of the time, its half, its quarter, its eighth. A leak need not be as old as its stack.
pub(crate) const HORIZONS: u32 = 4;

/// Test for a count below the common rate: `share` of that rate would give so low a count with less than `probability`.
#[derive(Clone, Copy)]
struct Less {
    share: f64,
    probability: f64,
}

/// Over the whole time a leak's rate may change by a factor of two.
const HALF: Less = Less { share: 0.5, probability: 0.01 };
/// A fading rate looks steady over a short time; it is lower then than just before.
const SOMEWHAT: Less = Less { share: 0.75, probability: 0.05 };

/// Evidence at one horizon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Persistence {
    /// How far back it looks.
    pub horizon_ns: u64,
    /// The age from which samples count as settled.
    pub settled_ns: u64,
    /// Live samples between settled age and horizon.
    pub kept: u64,
    /// Samples freed at or beyond the settled age.
    pub freed: u64,
    /// 95% lower bound of the share that is kept.
    pub kept_share_at_least: f64,
    /// Whether the kept ones were allocated at a steady rate that goes on.
    pub is_steady: bool,
    /// The age from which hardly any sample was freed, no more than the settled age.
    pub lasting_ns: u64,
    /// The age of the sample with which the present rate of those began; growth is taken from there to `lasting_ns`.
    pub began_ns: u64,
}

impl Persistence {
    /// The longest horizon, not below `min_age_ns`, that shows growth; else what the longest of all shows. `None` if the stack
    /// has not been observed for as long as `min_age_ns`.
    pub fn of(history: &StackHistory, min_age_ns: u64) -> Option<Self> {
        let observed = history.observed_ns();
        let ages = history.ascending_ages();
        let mut longest = None;
        for horizon_ns in (0..HORIZONS).map(|halvings| observed >> halvings) {
            if horizon_ns < min_age_ns.max(1) {
                break;
            }
            let bucket = lifetime_bucket(horizon_ns / 2);
            let seen = Self::at(&ages, history, horizon_ns, bucket);
            if seen.shows_growth() {
                return Some(seen);
            }
            longest.get_or_insert(seen);
        }
        longest
    }

    /// `ages` ascend.
    fn at(ages: &[u64], history: &StackHistory, horizon_ns: u64, bucket: usize) -> Self {
        let settled_ns = bucket_start_ns(bucket);
        let freed = history.lifetimes[bucket..].iter().sum();
        let count = |from_ns: u64, to_ns: u64| {
            let below = |limit_ns| ages.partition_point(|&age_ns| age_ns < limit_ns);
            (below(to_ns) - below(from_ns)) as u64
        };
        let kept = count(settled_ns, horizon_ns + 1);
        let young = count(0, settled_ns);
        let span_ns = (horizon_ns - settled_ns).max(1);
        let expected_young = kept as f64 * settled_ns as f64 / span_ns as f64;
        // The youngest third of the time of the kept ones; a leak may have been slower before. If old blocks were freed, a third without
        // kept ones was evicted.
        let is_thin = |slice: u64| {
            let at = |slice| settled_ns + span_ns * slice / SLICES;
            let own = count(at(slice), at(slice + 1));
            is_too_few(own, (kept - own) as f64 / (SLICES - 1) as f64, HALF)
        };
        let judged_slices = if freed == 0 { 1 } else { SLICES };
        // If the horizon is all of the time, there is nothing before.
        let before = count(horizon_ns, horizon_ns + horizon_ns / 2) as f64 * 2.0;
        let is_fading = is_too_few(kept + young, before, SOMEWHAT)
            || is_too_few(kept, before * span_ns as f64 / horizon_ns as f64, SOMEWHAT);
        let lasting = Lasting::of(ages, &history.lifetimes, horizon_ns, Some(settled_ns));
        let is_steady = !is_too_few(young, expected_young, HALF)
            && lasting.is_none_or(|lasting| lasting.goes_on)
            && !(0..judged_slices).any(is_thin)
            && !is_fading;
        let kept_share_at_least = lower_bound(kept, freed);
        let (lasting_ns, began_ns) =
            lasting.map_or((settled_ns, settled_ns), |lasting| (lasting.from_ns, lasting.to_ns));
        Self {
            horizon_ns,
            settled_ns,
            kept,
            freed,
            kept_share_at_least,
            is_steady,
            lasting_ns,
            began_ns,
        }
    }

    /// Whether what grew old is kept as by a leak: Wald's test of a leak against a cache that has just filled.
    pub fn is_kept(&self) -> bool {
        self.evidence() >= -FALSE_ALARMS.ln()
    }

    /// Returns the logarithm of the likelihood ratio of leak and cache.
    fn evidence(&self) -> f64 {
        let [of_kept, of_freed] = weights(self.settled_ns, self.horizon_ns);
        self.kept as f64 * of_kept + self.freed as f64 * of_freed
    }

    /// Samples that have to reach the settled age, with none of them freed.
    pub fn least_kept(&self) -> u64 {
        least_kept(self.settled_ns, self.horizon_ns)
    }

    /// The evidence of a leak: it is kept, and becomes more steadily.
    pub fn shows_growth(&self) -> bool {
        self.is_steady && self.is_kept()
    }

    /// Ages of what shows how fast it grows.
    pub fn growth_window(&self) -> Range<u64> {
        self.lasting_ns..self.began_ns
    }

    /// Whether a leak would show in time, if it goes on like this.
    pub fn may_show_growth(&self) -> bool {
        self.is_steady && self.evidence() > 0.0
    }

    /// Whether so few samples reached the settled age that neither answer would be sure.
    pub fn is_scarce(&self) -> bool {
        self.kept + self.freed < self.least_kept()
    }
}

/// Returns the amounts that a kept and a freed sample add to the logarithm of the likelihood ratio of leak and cache.
fn weights(settled_ns: u64, horizon_ns: u64) -> [f64; 2] {
    let by_a_cache = share_freed_by_a_cache(settled_ns, horizon_ns);
    let of_kept = (1.0 - FREED_BY_A_LEAK) / (1.0 - by_a_cache);
    [of_kept.ln(), (FREED_BY_A_LEAK / by_a_cache).ln()]
}

/// Share of the memory of settled age that a cache has freed which filled steadily since the horizon and is full for `FULL_PART` of that
/// time. The cache freed as much as came in that part, and all of it had reached the settled age.
fn share_freed_by_a_cache(settled_ns: u64, horizon_ns: u64) -> f64 {
    let share_of_all = FULL_PART / (1.0 + FULL_PART);
    share_of_all / (1.0 - settled_ns as f64 / horizon_ns as f64)
}

/// Samples that have to reach the settled age before the horizon, with none of them freed.
pub fn least_kept(settled_ns: u64, horizon_ns: u64) -> u64 {
    let [of_kept, _] = weights(settled_ns, horizon_ns);
    (-FALSE_ALARMS.ln() / of_kept).ceil() as u64
}

fn is_too_few(count: u64, expected: f64, less: Less) -> bool {
    Poisson::new(expected * less.share).is_ok_and(|few| few.cdf(count) < less.probability)
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
        let block = |age_s| LiveBlock::new(NOW - age_s * SECOND, 100, 5000.0);
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
    fn steady_kept_blocks_show_growth() {
        assert!(shows_growth(&history((0..1000).step_by(10), &[])));
        assert!(shows_growth(&history((0..1000).step_by(10), &[(1, 1_000_000)])));
    }

    #[test]
    fn frees_of_old_blocks_deny_growth() {
        assert!(!shows_growth(&history((0..1000).step_by(20), &[(300, 6)])));
        assert!(!shows_growth(&history((0..900).step_by(10), &[(900, 10)])));
    }

    #[test]
    fn ended_build_is_no_growth() {
        assert!(!shows_growth(&history(900..1000, &[])));
        assert!(!shows_growth(&history(500..1000, &[])));
    }

    #[test]
    fn late_leak_has_shorter_horizon() {
        let found = Persistence::of(&history((0..500).step_by(5), &[(1, 999)]), SECOND).unwrap();
        assert!(found.shows_growth());
        assert_eq!(found.horizon_ns, 500 * SECOND);
    }

    fn seen(kept: u64, freed: u64, settled_ns: u64) -> Persistence {
        let kept_share_at_least = lower_bound(kept, freed);
        Persistence {
            horizon_ns: 600,
            settled_ns,
            kept,
            freed,
            kept_share_at_least,
            is_steady: true,
            lasting_ns: settled_ns,
            began_ns: 600,
        }
    }

    /// Returns the probability that a cache which frees `share` of what gets old ever passes for a leak, if judged after each of 500
    /// samples.
    fn chance_to_pass(share: f64, settled_ns: u64) -> f64 {
        // Probabilities of the histories that have not passed so far, by the number of freed samples.
        let (mut chances, mut passed) = (vec![1.0], 0.0);
        for reached in 1..=500 {
            let mut next = vec![0.0; chances.len() + 1];
            for (freed, chance) in chances.iter().enumerate() {
                next[freed] += chance * (1.0 - share);
                next[freed + 1] += chance * share;
            }
            for (freed, chance) in next.iter_mut().enumerate() {
                if seen(reached - freed as u64, freed as u64, settled_ns).is_kept() {
                    passed += std::mem::take(chance);
                }
            }
            chances = next;
        }
        passed
    }

    #[test]
    fn full_cache_hardly_ever_passes() {
        // A cache evicts 60 of the 660 blocks allocated in the time, whatever age counts as settled.
        for settled_ns in [150, 200, 299] {
            let reached = 660.0 * (1.0 - settled_ns as f64 / 600.0);
            let share: f64 = 60.0 / reached;
            let least = seen(0, 0, settled_ns).least_kept();
            assert!((1.0 - share).powi(least as i32) <= 0.001, "{settled_ns}");
            let (enough, too_few) = (seen(least, 0, settled_ns), seen(least - 1, 0, settled_ns));
            assert!(enough.is_kept() && !enough.is_scarce());
            assert!(!too_few.is_kept() && too_few.is_scarce());
            assert!(!seen(least, 1, settled_ns).is_kept());
            let passes = chance_to_pass(share, settled_ns);
            assert!((0.0003..=0.001).contains(&passes), "{settled_ns}: {passes}");
        }
        assert!(seen(100, 1, 200).is_kept() && !seen(100, 6, 200).is_kept());
    }

    #[test]
    fn least_kept_ignores_settled_age() {
        for settled_ns in 150..300 {
            let of_all =
                seen(0, 0, settled_ns).least_kept() as f64 / (1.0 - settled_ns as f64 / 600.0);
            assert!((72.0..79.0).contains(&of_all), "{settled_ns}: {of_all}");
        }
    }

    #[test]
    fn kept_share_bound_is_close() {
        // Many samples do not make a young cache a leak.
        assert!(seen(4000, 360, 200).kept_share_at_least > 0.9 && !seen(4000, 360, 200).is_kept());
        assert!(seen(29, 0, 200).kept_share_at_least > 0.9);
        assert!(seen(28, 0, 200).kept_share_at_least < 0.9);
        assert!(!seen(0, 0, 200).is_kept());
        for (kept, freed) in [(1, 0), (1_000_000, 1000), (10_000_000, 10_000_000), (0, 1 << 40)] {
            let seen = seen(kept, freed, 200);
            let share = kept as f64 / (kept + freed) as f64;
            assert!((0.0..=share).contains(&seen.kept_share_at_least), "{seen:?}");
            assert!(kept < 100 || seen.kept_share_at_least > share - 0.001, "{seen:?}");
        }
    }

    #[test]
    fn large_slices_compare_like_small() {
        for expected in [20.0, 2e3, 2e6, 2e9] {
            assert!(!is_too_few(expected as u64, expected, HALF));
            assert!(is_too_few((expected / 20.0) as u64, expected, HALF));
        }
        let too_few = |count, expected| is_too_few(count, expected, HALF);
        assert!(!too_few(0, 0.0) && !too_few(0, 8.0) && too_few(0, 10.0));
        assert!(is_too_few(33, 63.0, SOMEWHAT) && !is_too_few(33, 63.0, HALF));
    }

    #[test]
    fn fading_rate_is_no_growth() {
        // The rate falls to 1/e in 400 s; over the last quarter of the time it is steady enough.
        let ages_s = (0..2000).map(|number| {
            let time_s = -400.0 * (1.0 - f64::from(number) / 2000.0 * (1.0 - (-2.5f64).exp())).ln();
            1000 - time_s as u64
        });
        let fading = history(ages_s, &[]);
        assert!(!shows_growth(&fading));
        // A leak after a burst is steady, without the burst.
        assert!(shows_growth(&history((0..1000).step_by(5).chain([990; 3000]), &[])));
    }

    #[test]
    fn longer_pause_means_stopped() {
        // A table built in 50 s, 12 s ago; bursts as far apart as that are a leak.
        let table = (0..500u64).map(|number| 950 - number / 10);
        let ended = StackHistory { now_ns: NOW - 888 * SECOND, ..history(table, &[]) };
        let ended = StackHistory { first_ns: 0, ..ended };
        assert!(!Persistence::of(&ended, SECOND).unwrap().shows_growth());
        let bursts = (0..1000u64).map(|number| 24 + 50 * (number / 50));
        assert!(shows_growth(&history(bursts, &[])));
    }
}
