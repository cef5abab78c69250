//! How fast a stack's live bytes become more.

use crate::history::StackHistory;
use crate::lasting::Lasting;
use crate::persistence::Persistence;
use crate::verdict::Settings;
use ramson_profile::{Estimate, SampleUnit};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use std::ops::Range;

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
    /// The measured one if there is one, unless growth began within its time: the rest of that would count as a time of slow growth.
    pub fn of(history: &StackHistory, seen: &Persistence, settings: &Settings) -> Option<Self> {
        Self::summed(history, seen, settings, |it, window| {
            let measured = it.measured.filter(|measured| measured.window_ns > 0);
            let measured = measured.map(|it| Self::new(it.change, it.window_ns, true));
            let Some(measured) = measured else { return kept(it, window?) };
            let began_within = window.filter(|window| window.end < measured.window_ns);
            let promised = began_within.and_then(|window| kept(it, window));
            promised.filter(|promised| !measured.denies(promised)).or(Some(measured))
        })
    }

    /// Bytes allocated since growth began and still live, over that time, but for ages at which much is freed: what that time has added
    /// for good, if none of it is freed later.
    pub fn of_kept(
        history: &StackHistory,
        seen: &Persistence,
        settings: &Settings,
    ) -> Option<Self> {
        Self::summed(history, seen, settings, |it, window| kept(it, window?))
    }

    /// The growth of a process, or the sum of what each of several grows by: they may have begun to grow at different times.
    fn summed(
        history: &StackHistory,
        seen: &Persistence,
        settings: &Settings,
        of_one: impl Fn(&StackHistory, Option<Range<u64>>) -> Option<Self>,
    ) -> Option<Self> {
        let growth = if history.processes.is_empty() {
            of_one(history, Some(seen.growth_window()))
        } else {
            let parts = history.processes.values();
            let all = parts.filter_map(|part| of_one(part, window_of_part(part, seen, settings)));
            all.reduce(|sum, one| Self {
                per_hour: sum.per_hour + one.per_hour,
                window_ns: sum.window_ns.max(one.window_ns),
                is_measured: sum.is_measured || one.is_measured,
                ..sum
            })
        };
        let confidence = 1.0 - FALSE_ALARMS / settings.stacks.max(1) as f64;
        let deviations = Normal::standard().inverse_cdf(confidence);
        growth.map(|growth| Self {
            is_significant: growth.per_hour.value
                > growth.per_hour.error_variance().sqrt() * deviations,
            ..growth
        })
    }

    /// Whether the two snapshots that this was measured between show far less growth than the ages promise.
    pub(crate) fn denies(&self, promised: &Self) -> bool {
        let shared_ns = self.window_ns.min(promised.window_ns) as f64;
        let most = self.interval().1 * self.window_ns as f64;
        self.is_measured && most < promised.interval().0 * shared_ns / 2.0
    }

    fn new(change: Estimate, window_ns: u64, is_measured: bool) -> Self {
        let per_hour = change.scaled(NS_PER_HOUR / window_ns as f64);
        Self { per_hour, window_ns, is_measured, is_significant: false }
    }

    /// Ends of the 95% interval.
    pub fn interval(&self) -> (f64, f64) {
        let half_width = self.per_hour.half_width_95();
        (self.per_hour.value - half_width, self.per_hour.value + half_width)
    }
}

/// What was allocated at these ages and is live, without the sample with which growth began: the time was chosen to reach back to it.
fn kept(history: &StackHistory, window: Range<u64>) -> Option<Growth> {
    let window_ns = window.end - window.start;
    let kept = history.live.iter().filter(|block| window.contains(&history.age_ns(block)));
    let bytes = kept.map(|block| block.estimate(SampleUnit::Bytes)).sum();
    (window_ns > 0).then(|| Growth::new(bytes, window_ns, false))
}

/// The ages at which one of several processes that grow together grew: by itself if that can be told, else as all of them are seen.
/// `None`: it does not grow now.
fn window_of_part(
    part: &StackHistory,
    seen: &Persistence,
    settings: &Settings,
) -> Option<Range<u64>> {
    let own = Persistence::of(part, settings.min_age_ns).filter(Persistence::shows_growth);
    match own {
        Some(own) => Some(own.growth_window()),
        None => {
            let (ages, settled_ns) = (part.ascending_ages(), Some(seen.settled_ns));
            let found = Lasting::of(&ages, &part.lifetimes, seen.horizon_ns, settled_ns);
            found.filter(|it| !it.stands_still).map(|it| it.from_ns..it.to_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{LiveBlock, MeasuredChange};
    use crate::verdict::judge;

    const HOUR: u64 = NS_PER_HOUR as u64;

    fn grown(change: Estimate, stacks: usize) -> Growth {
        let measured = Some(MeasuredChange { change, window_ns: HOUR / 2 });
        let history = StackHistory { measured, now_ns: HOUR, ..StackHistory::default() };
        let seen = Persistence::of(&history, 1).unwrap();
        Growth::of(&history, &seen, &Settings { min_age_ns: 1, stacks }).unwrap()
    }

    #[test]
    fn more_stacks_ask_for_more_evidence() {
        let of = |stacks| grown(Estimate::new(3.5, 1.0), stacks);
        assert!(of(1).is_significant && !of(1000).is_significant);
        assert_eq!(of(1).per_hour, Estimate::new(7.0, 4.0));
    }

    #[test]
    fn a_loss_is_never_significant_growth() {
        assert!(!grown(Estimate::exact(-5.0), 1).is_significant);
        assert!(!grown(Estimate::exact(0.0), 1).is_significant);
    }

    /// Exact blocks of 100 bytes, one every `step_s`, from `from_s` to `to_s`.
    fn process(from_s: u64, to_s: u64, step_s: u64) -> StackHistory {
        const SECOND: u64 = 1_000_000_000;
        let at = (from_s..to_s).step_by(step_s as usize);
        let live: Vec<LiveBlock> = at.map(|s| LiveBlock::new(s * SECOND, 100, 1.0)).collect();
        let start_ns = from_s * SECOND;
        StackHistory {
            start_ns,
            first_ns: start_ns,
            now_ns: 3600 * SECOND,
            live,
            ..StackHistory::default()
        }
    }

    #[test]
    fn growth_that_began_after_the_earlier_snapshot_is_not_spread_over_the_time_before() {
        let settings = Settings { min_age_ns: 30_000_000_000, stacks: 1 };
        // For the last 150 s of nine minutes.
        let mut leak = process(3450, 3600, 1);
        let window_ns = 540_000_000_000;
        leak.measured = Some(MeasuredChange { change: leak.inuse(SampleUnit::Bytes), window_ns });
        let found = judge(&leak, &settings);
        assert!(found.is_growing(), "{}", found.reason);
        let growth = found.growth.unwrap();
        assert!((growth.per_hour.value / 360_000.0 - 1.0).abs() < 0.02, "{growth:?}");
        // A pool that is as large as it was, and whose blocks are all young.
        leak.measured = Some(MeasuredChange { change: Estimate::exact(0.0), window_ns });
        let found = judge(&leak, &settings);
        assert!(!found.is_growing() && found.growth.unwrap().per_hour.value == 0.0, "{found:?}");
    }

    #[test]
    fn processes_grow_by_the_sum_of_their_growth() {
        let settings = Settings { min_age_ns: 60_000_000_000, stacks: 1 };
        let per_hour = |parts: &[StackHistory]| {
            let parts = parts.iter().enumerate();
            let parts: Vec<StackHistory> =
                parts.map(|(number, part)| part.clone().of_process(number)).collect();
            let found = judge(&StackHistory::joined(&parts).unwrap(), &settings);
            assert!(found.is_growing(), "{}", found.reason);
            found.growth.unwrap().per_hour.value
        };
        let (old, young) = (process(0, 3600, 2), process(3000, 3600, 1));
        // 100 bytes every 2 s, and every second for the last 10 minutes.
        let both = per_hour(&[old.clone(), young.clone()]);
        assert!((both / (180_000.0 + 360_000.0) - 1.0).abs() < 0.01, "{both}");
        // One that has stopped grows no more.
        let stopped = per_hour(&[old.clone(), process(0, 1500, 2)]);
        assert!((stopped / 180_000.0 - 1.0).abs() < 0.01, "{stopped}");
        // Of ten that are too small to be judged alone, all count.
        let small: Vec<StackHistory> = (0..10).map(|number| process(number, 3600, 300)).collect();
        let all = per_hour(&small);
        assert!((all / 12_000.0 - 1.0).abs() < 0.1, "{all}");
    }
}
