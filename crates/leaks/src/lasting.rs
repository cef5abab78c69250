//! Memory of a stack that lasts: the live samples of ages at which hardly anything was freed. Since when they have come and how fast is
//! how fast the stack grows, if it does; where that cannot be judged yet, it says when it can.

use crate::history::{StackHistory, bucket_start_ns};
use crate::persistence::{FREED_BY_A_LEAK, HORIZONS, least_kept};
use crate::standstill::Standstill;
use ramson_format::{LIFETIME_BUCKETS, lifetime_bucket};

/// The rate has changed if the samples are so much more likely with a rate before and one after, as a logarithm …
const LEAST_GAIN: f64 = 6.9;
/// … and one is so many times the other. Waves and bursts are one rate.
const LEAST_RATIO: f64 = 2.0;
/// The rate after the change is known from so many samples.
const LEAST_AFTER: usize = 10;
/// Most stray samples that are passed over between the end of growth and the standstill after it.
const STRAY: usize = 2;
/// With fewer samples nobody can say that more come.
const LEAST_GROWING: usize = 3;
/// It has stopped if nothing came for so many times the longest pause before. A steady leak of n samples pauses so long with a
/// probability of 2/n².
const QUIET_TIMES: u64 = 2;
/// The time until a verdict is searched in steps of this ratio, as far as that many times the time so far.
const STEP: f64 = 1.05;
const MOST_TIMES: f64 = 1000.0;

/// Ages of the samples that show how fast a stack grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lasting {
    /// The age from which hardly anything is freed.
    pub from_ns: u64,
    /// The age of the sample with which the present rate began. It marks the end of the time, and is not counted.
    pub to_ns: u64,
    /// Samples of ages in between.
    count: usize,
    /// Whether nothing has come for some time, and that is no chance.
    pub stands_still: bool,
    /// Whether the last pause is one like those before.
    pub goes_on: bool,
}

impl Lasting {
    /// Looks back as far as `horizon_ns`. What is as old as `settled_ns` is taken to last, and a change of the rate is older; `None`: not known.
    /// `ages` ascend. Returns `None` if nothing lasts.
    pub fn of(
        ages: &[u64],
        lifetimes: &[u64; LIFETIME_BUCKETS],
        horizon_ns: u64,
        settled_ns: Option<u64>,
    ) -> Option<Self> {
        let ages = &ages[..ages.partition_point(|&age_ns| age_ns <= horizon_ns)];
        let from_ns = lasting_from(ages, lifetimes, settled_ns)?;
        let mut ages = &ages[ages.partition_point(|&age_ns| age_ns < from_ns)..];
        let mut standstill = Standstill::of(ages, from_ns);
        while let Some(ended_ns) = standstill.and_then(|it| it.ended_ns) {
            ages = &ages[..ages.partition_point(|&age_ns| age_ns < ended_ns)];
            standstill = Standstill::of(ages, from_ns);
        }
        let count =
            change(ages, from_ns, settled_ns.unwrap_or(0)).unwrap_or(ages.len().checked_sub(1)?);
        let since_ns: Vec<u64> = ages[..=count].iter().map(|age_ns| age_ns - from_ns).collect();
        let stands_still = standstill.is_some();
        let goes_on = count + 1 >= LEAST_GROWING && !stands_still && !has_stopped(&since_ns);
        Some(Self { from_ns, to_ns: ages[count], count, stands_still, goes_on })
    }

    /// Looks at all that was observed of a stack.
    pub fn of_all(history: &StackHistory) -> Option<Self> {
        Self::of(&history.ascending_ages(), &history.lifetimes, history.observed_ns(), None)
    }

    /// How much longer until these would be called a leak at the rate so far; `None`: they do not grow.
    pub fn judged_in_ns(&self, observed_ns: u64, min_age_ns: u64) -> Option<u64> {
        let span_ns = self.to_ns - self.from_ns;
        if !self.goes_on || span_ns == 0 {
            return None;
        }
        let per_ns = self.count as f64 / span_ns as f64;
        let is_judged = |&wait_ns: &u64| {
            let [all_ns, age_ns] = [observed_ns, self.to_ns].map(|so_far| so_far + wait_ns);
            (0..HORIZONS).map(|halvings| all_ns >> halvings).any(|horizon_ns| {
                let settled_ns = bucket_start_ns(lifetime_bucket(horizon_ns / 2));
                let kept_ns = age_ns.min(horizon_ns).saturating_sub(settled_ns);
                horizon_ns >= min_age_ns.max(1)
                    && kept_ns as f64 * per_ns >= least_kept(settled_ns, horizon_ns) as f64
            })
        };
        let times = std::iter::successors(Some(1.0), |times| Some(times * STEP));
        let waits = times.take_while(|&times| times < MOST_TIMES);
        waits.map(|times| (observed_ns as f64 * (times - 1.0)) as u64).find(is_judged)
    }
}

/// The age from which hardly anything is freed.
fn lasting_from(
    ages: &[u64],
    lifetimes: &[u64; LIFETIME_BUCKETS],
    settled_ns: Option<u64>,
) -> Option<u64> {
    let mut freed: u64 = lifetimes.iter().sum();
    let hardly_freed = |bucket: &usize| {
        let from_ns = bucket_start_ns(*bucket);
        let kept = ages.len() - ages.partition_point(|&age_ns| age_ns < from_ns);
        let is_it = freed as f64 <= FREED_BY_A_LEAK * kept as f64;
        freed -= lifetimes[*bucket];
        is_it || settled_ns.is_some_and(|settled_ns| from_ns >= settled_ns)
    };
    Some(bucket_start_ns((0..LIFETIME_BUCKETS).find(hardly_freed)?))
}

/// Ages at which growth may have ended: that of the youngest sample that lasts, and that with which the last standstill began.
pub(crate) fn ends_of_growth(history: &StackHistory) -> Vec<u64> {
    let ages = history.ascending_ages();
    let Some(from_ns) = lasting_from(&ages, &history.lifetimes, None) else { return Vec::new() };
    let ages = &ages[ages.partition_point(|&age_ns| age_ns < from_ns)..];
    let began = Standstill::of(ages, from_ns)
        .map_or(ages.len(), |it| ages.partition_point(|&age_ns| age_ns < it.began_ns));
    // A stray sample may have come right after the end.
    ages.first().into_iter().chain(ages[began..].iter().take(STRAY + 1)).copied().collect()
}

/// The place of the sample with which the rate changed: those before it are younger. `ages` ascend from `from_ns` on. Samples come at random
/// (Poisson), before and after the change at a rate of its own; the likelihood says where the change is. If the rate has risen, most samples
/// have come since.
fn change(ages: &[u64], from_ns: u64, least_ns: u64) -> Option<usize> {
    let (&last_ns, _) = ages.split_last()?;
    let all = ages.len() - 1;
    let likelihood = |count: usize, ns: u64| count as f64 * (count as f64 / ns as f64).ln();
    let of_one = likelihood(all, last_ns - from_ns);
    let gain = |&after: &usize| {
        let (before, at_ns) = (all - after, ages[after]);
        let [after_ns, before_ns] = [at_ns - from_ns, last_ns - at_ns];
        if after_ns == 0 || before_ns == 0 || at_ns < least_ns {
            return None;
        }
        let ratio = after as f64 / after_ns as f64 * before_ns as f64 / before as f64;
        let has_risen = ratio >= LEAST_RATIO && after >= before;
        let gain = likelihood(after, after_ns) + likelihood(before, before_ns) - of_one;
        (gain >= LEAST_GAIN && (has_risen || ratio <= 1.0 / LEAST_RATIO)).then_some(gain)
    };
    let gains = (LEAST_AFTER..all).filter_map(|after| Some((after, gain(&after)?)));
    Some(gains.max_by(|one, other| one.1.total_cmp(&other.1))?.0)
}

/// Whether nothing has come for longer than ever before; `ages` ascend.
fn has_stopped(ages: &[u64]) -> bool {
    let pauses = ages.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.max().is_some_and(|longest_ns| ages[0] / QUIET_TIMES > longest_ns)
}

#[cfg(test)]
#[path = "lasting_tests.rs"]
mod tests;
