//! Leak suspects that rise together below one caller: a session, its buffers and its node in a map are one leak, which to mend is one change.

use super::suspect::{Function, Suspect};
use ramson_profile::{Estimate, FrameName};
use serde::Serialize;
use std::collections::BTreeMap;

/// A caller has a suspect if this share of its live bytes was allocated below it.
const LEAST_SHARE: f64 = 0.9;
/// Their median ages differ by no more than this factor: they are of the same time.
const MOST_APART: f64 = 2.0;

/// Leak suspects below a common caller.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Group {
    /// The nearest function below which all of them were allocated, line 0. It may be one of them.
    #[serde(flatten)]
    pub caller: FrameName,
    /// Their places among the suspects, from 0.
    pub suspects: Vec<usize>,
    /// Live bytes of all of them.
    pub inuse_space: Estimate,
    /// Their growth, in bytes per hour.
    pub growth_per_hour: Estimate,
    /// Since then at least; the earliest of them.
    pub growing_since_unix_ns: Option<u64>,
}

/// Live bytes of a suspect that pass through a function, and how far it is from what allocated them, weighted by these bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Below {
    pub bytes: f64,
    pub distance: f64,
}

/// Groups of two and more, in the order of their first suspects, which are sorted. A suspect that is alone is in no group.
pub fn groups(suspects: &[Suspect]) -> Vec<Group> {
    let mut below: BTreeMap<&Function, Vec<(usize, f64)>> = BTreeMap::new();
    for (place, suspect) in suspects.iter().enumerate().filter(|(_, it)| it.is_growing()) {
        let all = suspect.finding.inuse_space.value;
        for (function, part) in &suspect.callers {
            if part.bytes >= LEAST_SHARE * all {
                below.entry(function).or_default().push((place, part.distance / part.bytes));
            }
        }
    }
    let mean = |of: &[(usize, f64)]| of.iter().map(|it| it.1).sum::<f64>() / of.len() as f64;
    let mut callers: Vec<(&Function, Vec<(usize, f64)>)> = below.into_iter().collect();
    callers.sort_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)).then(b.len().cmp(&a.len())));
    let mut taken = vec![false; suspects.len()];
    let mut groups = Vec::new();
    for (caller, of) in callers {
        let free = of.into_iter().map(|(place, _)| place).filter(|&place| !taken[place]);
        let together = of_one_time(suspects, free.collect());
        if together.len() < 2 {
            continue;
        }
        together.iter().for_each(|&place| taken[place] = true);
        groups.push(Group::of(caller, together, suspects));
    }
    groups.sort_by_key(|group| group.suspects[0]);
    groups
}

/// Those that are as old as the first.
fn of_one_time(suspects: &[Suspect], places: Vec<usize>) -> Vec<usize> {
    let age = |place: usize| suspects[place].finding.ages.as_ref().map(|ages| ages.p50_ns as f64);
    let Some(first) = places.first().and_then(|&place| age(place)) else { return Vec::new() };
    let is_of_it = |&place: &usize| {
        let ratio = age(place).map(|age| (age / first).max(first / age));
        ratio.is_some_and(|ratio| ratio <= MOST_APART)
    };
    places.into_iter().filter(is_of_it).collect()
}

impl Group {
    fn of(caller: &Function, places: Vec<usize>, suspects: &[Suspect]) -> Self {
        let all = || places.iter().map(|&place| &suspects[place]);
        let growth = all().filter_map(|it| it.finding.growth.as_ref());
        Self {
            caller: FrameName {
                name: caller.0.clone(),
                file: caller.1.clone(),
                ..FrameName::default()
            },
            inuse_space: all().map(|it| it.finding.inuse_space).sum(),
            growth_per_hour: growth.map(|growth| growth.per_hour).sum(),
            growing_since_unix_ns: all().filter_map(|it| it.growing_since_unix_ns).min(),
            suspects: places,
        }
    }
}
