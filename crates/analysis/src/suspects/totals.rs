//! How fast the whole process grows, whatever its stacks say: all that is live together, RSS, and memory outside malloc, of which no
//! stack is known.

use super::course::Course;
use super::stacks::NamedStack;
use crate::extents;
use crate::goroutines::Watched;
use crate::owners;
use crate::rss::Rss;
use ramson_history::{Moment, TERM_COUNT};
use ramson_leaks::{Settings, Slope, StackHistory, Verdict, judge};
use ramson_process::Term;
use ramson_process::clock::unix_ns;
use ramson_process::stat::Stat;
use ramson_profile::Estimate;
use ramson_source::{Recording, go, moments_of};
use serde::Serialize;
use std::thread;
use std::time::Duration;

/// Looks of a history that are this old say nothing about now, in ns …
const MOST_AGE_NS: u64 = 3_600_000_000_000;
/// … nor does a shorter time, in which a garbage collector may not have run.
const LEAST_WINDOW_NS: u64 = 20_000_000_000;
/// Looks during a window.
const LOOKS: u64 = 16;

/// One look at a process from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Resident bytes.
    pub rss: u64,
    /// Anonymous bytes among them that did not come from malloc; `None`: not known then.
    pub outside: Option<u64>,
}

/// Growth of a process as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Totals {
    /// What is live, in bytes per hour, if all stacks together are judged to be growing; null if they are not.
    pub live_per_hour: Option<Estimate>,
    /// RSS, by looks at it; null: there were too few of them.
    pub rss: Option<Slope>,
    /// Anonymous memory outside malloc, likewise.
    pub outside_malloc: Option<Slope>,
    /// Whose memory that is, as a phrase; null unless it grows.
    pub owner: Option<String>,
    /// How to see into it; null: no way is known.
    pub advice: Option<String>,
}

impl Look {
    /// Looks at a running process.
    pub fn at(recording: &Recording) -> Option<Self> {
        let pid = recording.running?;
        let unix_ns = unix_ns();
        let terms = Rss::read(pid, &recording.origin, &recording.snapshot, &mut None);
        Some(match terms {
            Some(rss) => {
                let own = extents::without_go(&recording.snapshot);
                let live = own.map_or(Estimate::default(), |own| extents::live_heap(&own));
                let outside = outside(|term| rss.term(term).value, live);
                Self { unix_ns, rss: rss.bytes, outside: Some(outside) }
            }
            None => Self { unix_ns, rss: Stat::of(pid)?.rss?, outside: None },
        })
    }

    fn of_history(moment: &Moment) -> Option<Self> {
        let outside =
            |terms: [i64; TERM_COUNT]| outside(|term| terms[term as usize] as f64, moment.live);
        // Live bytes of a Go program are those of both heaps.
        let terms = moment.terms.filter(|terms| terms[Term::GoHeap as usize] == 0);
        let outside = terms.map(outside);
        Some(Self { unix_ns: moment.time_ns, rss: moment.rss?, outside })
    }
}

/// Anonymous bytes outside malloc, by the terms of RSS. Live bytes that the allocator's statistics do not have are in one of these terms.
fn outside(term: impl Fn(Term) -> f64, live: Estimate) -> u64 {
    let unaccounted = live.value - term(Term::Live) - term(Term::Unseen);
    (term(Term::Mmap) + term(Term::Other) - unaccounted.max(0.0)).max(0.0) as u64
}

/// Looks at running processes again and again during a window, for each of them.
pub fn watch(recordings: &[Recording], window_ns: u64) -> Vec<(Vec<Look>, Watched)> {
    let mut looks: Vec<_> = recordings.iter().map(|_| (Vec::new(), Watched::default())).collect();
    let mut look = || {
        for ((looks, goroutines), recording) in looks.iter_mut().zip(recordings) {
            looks.extend(Look::at(recording));
            recording.running.into_iter().for_each(|pid| goroutines.look(pid));
            // Samples of Go's runtime are as old as the look that found them.
            let _ = recording.running.filter(|_| recording.is_of_go()).and_then(go::recording);
        }
    };
    look();
    for _ in 0..LOOKS {
        thread::sleep(Duration::from_nanos(window_ns / LOOKS));
        look();
    }
    looks
}

/// Looks that a history has kept of the latest hour of this process, and one now.
pub fn kept(recording: &Recording) -> Vec<Look> {
    let now_ns = recording.past.as_ref().map_or_else(unix_ns, |past| past.time_ns);
    let header = &recording.snapshot.header;
    let moments = moments_of(header, now_ns.saturating_sub(MOST_AGE_NS), now_ns);
    let mut looks: Vec<Look> = moments.iter().filter_map(Look::of_history).collect();
    if !looks.is_empty() {
        looks.extend(Look::at(recording));
    }
    looks
}

impl Totals {
    /// The growth of a process, or of several: RSS is that of one.
    pub fn of(courses: &[Course], stacks: &[NamedStack], min_age_ns: u64) -> Self {
        let live_per_hour = live_per_hour(stacks, min_age_ns);
        let [course] = courses else { return Self { live_per_hour, ..Self::default() } };
        let rss = slope(&course.looks, |look| Some(look.rss));
        let outside_malloc = slope(&course.looks, |look| look.outside);
        let recording = &course.moment.recording;
        let grows = outside_malloc.is_some_and(|slope| slope.is_growth());
        let owner = recording.running.filter(|_| grows).map(|pid| {
            let outside = course.looks.last().and_then(|look| look.outside).unwrap_or(0);
            owners::text(&owners::owners(pid, &recording.snapshot, outside))
        });
        let advice = owner.as_deref().and_then(|owner| owners::how_to_see(owner, recording.pid()));
        Self { live_per_hour, rss, outside_malloc, owner, advice }
    }
}

fn slope(looks: &[Look], of: impl Fn(&Look) -> Option<u64>) -> Option<Slope> {
    let points = looks.iter().filter_map(|look| Some((look.unix_ns, of(look)? as f64)));
    Slope::of(&points.collect::<Vec<_>>()).filter(|slope| slope.window_ns >= LEAST_WINDOW_NS)
}

/// All stacks, judged as one.
pub(super) fn live_per_hour(stacks: &[NamedStack], min_age_ns: u64) -> Option<Estimate> {
    let all = StackHistory::joined(stacks.iter().map(|stack| &stack.history))?;
    let finding = judge(&all, &Settings { min_age_ns, stacks: 1 });
    let growth = finding.growth.filter(|_| finding.verdict == Verdict::Growing);
    Some(growth?.per_hour)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 20;

    /// The terms say 100 MiB of other memory and 5 MiB live; the profile knows 40 MiB of live blocks.
    #[test]
    fn live_bytes_are_not_outside_malloc() {
        let term = |term| match term {
            Term::Other => 100.0,
            Term::Live => 5.0,
            _ => 0.0,
        };
        assert_eq!(outside(term, Estimate::exact(40.0)), 65);
        assert_eq!(outside(term, Estimate::exact(3.0)), 100);
        assert_eq!(outside(term, Estimate::exact(300.0)), 0);
    }

    #[test]
    fn growth_outside_malloc_is_measured() {
        let look = |at: u64| Look {
            unix_ns: at * SECOND,
            rss: (500 + 2 * at) * MIB,
            outside: Some((100 + at) * MIB),
        };
        let looks: Vec<Look> = (0..10).map(|at| look(10 * at)).collect();
        let per_hour = |slope: Option<Slope>| slope.unwrap().bytes_per_hour.value / MIB as f64;
        assert!((per_hour(slope(&looks, |look| Some(look.rss))) - 7200.0).abs() < 1e-6);
        assert!((per_hour(slope(&looks, |look| look.outside)) - 3600.0).abs() < 1e-6);
        // 10 s are too short, and a history that did not read the terms tells RSS only.
        assert_eq!(slope(&looks[..2], |look| Some(look.rss)), None);
        let blind = [look(0), Look { outside: None, ..look(60) }];
        assert!(slope(&blind, |look| Some(look.rss)).is_some());
        assert_eq!(slope(&blind, |look| look.outside), None);
    }
}
