//! Moments that this server has seen of each process since it began, in bounded memory.

use ramson_analysis::steps::{self, Step, steps};
use ramson_analysis::terms::Terms;
use ramson_profile::Estimate;
use serde::Serialize;
use std::collections::HashMap;

/// Most moments of all processes together. A list that grows has room for twice its length, so all lists take at most 64 MiB.
const MOST_MOMENTS: usize = (32 << 20) / size_of::<Moment>();
/// Processes that have ended are forgotten beyond this.
const MOST_PROCESSES: usize = 4096;

/// A process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Moment {
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Resident bytes; null: not known.
    pub rss: Option<u64>,
    /// Live bytes of the heap; null: not known any more, as the process had been detached from.
    pub live: Option<Estimate>,
    /// Free in the allocator; null where it was not read, as reading it takes longest.
    pub free: Option<Estimate>,
    /// The terms of RSS, which add up to it; null where they were not read at that moment.
    pub terms: Option<Terms>,
}

/// The moments that were seen of one process.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// When it began to be profiled; nanoseconds since 1970. Its ID may have been another's before.
    pub start_unix_ns: u64,
    /// How it ended; `None` while it runs.
    pub ended: Option<String>,
    /// In their order.
    pub moments: Vec<Moment>,
}

/// As a document.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Moments {
    /// The process.
    pub pid: Option<u32>,
    /// How the process ended, such as `exited 0`; null while it runs.
    pub ended: Option<String>,
    /// How many moments there are.
    pub all: usize,
    /// As many as were asked for, in their order; of several that lie close together, the one with the largest RSS.
    pub moments: Vec<Moment>,
    /// Rises and falls of RSS within a short time that live did not follow.
    pub steps: Vec<Step>,
}

/// The series of all processes, by process ID.
#[derive(Default)]
pub struct Seen {
    by_pid: HashMap<u32, Series>,
}

impl Seen {
    /// The process with this ID.
    pub fn of(&self, pid: u32) -> Option<&Series> {
        self.by_pid.get(&pid)
    }

    /// Adds a moment.
    pub fn push(&mut self, pid: u32, start_unix_ns: u64, moment: Moment) {
        let series = self.by_pid.entry(pid).or_default();
        if series.start_unix_ns != start_unix_ns || series.ended.is_some() {
            *series = Series { start_unix_ns, ..Series::default() };
        }
        series.moments.push(moment);
        self.bound(MOST_MOMENTS);
    }

    /// Says what became of a process.
    pub fn end(&mut self, pid: u32, how: String) {
        if let Some(series) = self.by_pid.get_mut(&pid) {
            series.ended = Some(how);
        }
    }

    /// Every second moment of the longest series goes as long as there are too many; and who ended longest ago.
    fn bound(&mut self, most: usize) {
        while self.by_pid.values().map(|series| series.moments.len()).sum::<usize>() > most {
            let longest = self.by_pid.values_mut().max_by_key(|series| series.moments.len());
            let Some(series) = longest else { return };
            let mut number = 0;
            series.moments.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            series.moments.shrink_to_fit();
        }
        while self.by_pid.len() > MOST_PROCESSES {
            let last = |series: &Series| series.moments.last().map(|moment| moment.unix_ns);
            let ended = self.by_pid.iter().filter(|(_, series)| series.ended.is_some());
            let oldest = ended.min_by_key(|(_, series)| last(series)).map(|(&pid, _)| pid);
            let Some(pid) = oldest else { return };
            self.by_pid.remove(&pid);
        }
    }
}

impl Series {
    /// The largest steps of RSS that live does not follow, since live was last not known: over a detach it tells nothing.
    pub fn steps(&self) -> Vec<Step> {
        let known = self.moments.rsplit(|moment| moment.live.is_none()).next();
        let seen = |moment: &Moment| {
            let Moment { unix_ns, free, terms, .. } = *moment;
            Some(steps::Seen { unix_ns, rss: moment.rss?, live: moment.live?, free, terms })
        };
        steps(&known.into_iter().flatten().filter_map(seen).collect::<Vec<_>>())
    }

    /// At most so many moments, spread over all.
    pub fn thinned(&self, most: usize) -> Vec<Moment> {
        let most = most.max(1);
        let step = self.moments.len().div_ceil(most).max(1);
        let pieces = self.moments.chunks(step);
        pieces.filter_map(|piece| piece.iter().max_by_key(|moment| moment.rss)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(unix_ns: u64, rss: u64) -> Moment {
        Moment {
            unix_ns,
            rss: Some(rss),
            live: Some(Estimate::exact(1.0)),
            free: None,
            terms: None,
        }
    }

    #[test]
    fn reused_id_has_its_own_moments() {
        let mut seen = Seen::default();
        seen.push(7, 100, moment(1, 1));
        seen.end(7, "exited 0".into());
        assert_eq!(seen.of(7).unwrap().ended.as_deref(), Some("exited 0"));
        seen.push(7, 200, moment(2, 2));
        let series = seen.of(7).unwrap();
        assert_eq!((series.moments.len(), &series.ended, series.start_unix_ns), (1, &None, 200));
        assert!(seen.of(8).is_none());
    }

    #[test]
    fn steps_begin_after_unknown_live() {
        let mut seen = Seen::default();
        let rss = [100 << 20, 100 << 20, 200 << 20, 200 << 20];
        for (time, rss) in (0..).zip(rss) {
            seen.push(1, 1, moment(time * 1_000_000_000, rss));
        }
        assert_eq!(seen.of(1).unwrap().steps().len(), 1);
        let unknown = Moment { live: None, ..moment(4_000_000_000, 200 << 20) };
        seen.push(1, 1, unknown);
        seen.push(1, 1, moment(5_000_000_000, 300 << 20));
        assert_eq!(seen.of(1).unwrap().steps(), []);
    }

    #[test]
    fn longest_series_is_thinned() {
        let mut seen = Seen::default();
        for time in 0..100 {
            seen.push(1, 1, moment(time, time));
            if time % 10 == 0 {
                seen.push(2, 1, moment(time, time));
            }
            seen.bound(60);
        }
        let lengths = [1, 2].map(|pid| seen.of(pid).unwrap().moments.len());
        assert!(lengths[0] + lengths[1] <= 60 && lengths[0] > 20, "{lengths:?}");
        assert_eq!(lengths[1], 10);
        let times: Vec<u64> = seen.of(1).unwrap().moments.iter().map(|it| it.unix_ns).collect();
        assert!(times.is_sorted() && times.last() == Some(&99));
    }

    #[test]
    fn a_peak_survives_thinning() {
        let moments = (0..1000).map(|time| moment(time, if time == 501 { 9 } else { 1 })).collect();
        let series = Series { moments, ..Series::default() };
        let thinned = series.thinned(10);
        assert_eq!(thinned.len(), 10);
        assert!(thinned.iter().any(|moment| moment.rss == Some(9)));
        assert_eq!(series.thinned(5000).len(), 1000);
    }
}
