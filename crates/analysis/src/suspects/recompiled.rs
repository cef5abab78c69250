//! Leaks of functions that a run time compiles again while the program runs. Once a function is compiled into its caller, what it
//! allocates counts for the caller: one of the two has stopped growing, the other is young, and neither looks like a leak. Together
//! they do.

use super::functions::{JudgedFunction, joined};
use super::suspect::{functions, is_recompiled};
use ramson_leaks::{Finding, Judged, Settings, StackHistory, judge_paths};
use ramson_profile::SampleUnit;
use std::iter;

/// A function may have been compiled into a caller below which this share of its live bytes was allocated.
const LEAST_SHARE: f64 = 0.9;

/// Takes out of `all` the functions that leak together with functions which are compiled into them, with a finding for each such leak.
/// A function that leaks by itself is compiled into none. Those with the fewest such functions come first: the nearest caller has the
/// leak.
pub fn leaks(
    all: &mut Vec<JudgedFunction>,
    settings: &Settings,
) -> Vec<(Finding, Vec<JudgedFunction>)> {
    let may_join = |function: &JudgedFunction| function.stacks().next().is_some_and(is_recompiled);
    let mut left: Vec<(usize, StackHistory)> = Vec::new();
    for (place, function) in all.iter().enumerate().filter(|(_, it)| may_join(it)) {
        left.push((place, joined(function.stacks())));
    }
    let mut families: Vec<Vec<usize>> =
        (0..left.len()).map(|caller| family(caller, &left, all)).collect();
    families.sort_by_key(Vec::len);
    let mut found: Vec<(Finding, Vec<usize>)> = Vec::new();
    for family in families {
        let is_left = |at: &usize| !found.iter().any(|(_, taken)| taken.contains(&left[*at].0));
        let caller = family[0];
        let family: Vec<usize> = family.into_iter().filter(is_left).collect();
        if family.len() < 2 || family[0] != caller {
            continue;
        }
        let histories: Vec<StackHistory> = family.iter().map(|&at| left[at].1.clone()).collect();
        let is_leak = |judged: &Judged| {
            let paths = &judged.paths;
            judged.finding.is_growing() && paths.len() > 1 && paths[0] == 0
        };
        if let Some(leak) = judge_paths(&histories, settings).into_iter().find(is_leak) {
            let places = leak.paths.iter().map(|&path| left[family[path]].0);
            found.push((leak.finding, places.collect()));
        }
    }
    taken(all, found)
}

/// A function, and then those that may have been compiled into it.
fn family(caller: usize, left: &[(usize, StackHistory)], all: &[JudgedFunction]) -> Vec<usize> {
    let function = &all[left[caller].0].function;
    let is_below = |member: &usize| {
        let (place, history) = &left[*member];
        let below = all[*place].stacks().filter(|stack| functions(stack).any(|it| it == *function));
        let below: f64 = below.map(|stack| stack.history.inuse(SampleUnit::Bytes).value).sum();
        below >= LEAST_SHARE * history.inuse(SampleUnit::Bytes).value
    };
    let may_be_part = |&member: &usize| member != caller && all[left[member].0].may_be_part();
    let others = (0..left.len()).filter(may_be_part).filter(is_below);
    iter::once(caller).chain(others).collect()
}

fn taken(
    all: &mut Vec<JudgedFunction>,
    found: Vec<(Finding, Vec<usize>)>,
) -> Vec<(Finding, Vec<JudgedFunction>)> {
    let mut places: Vec<Option<JudgedFunction>> = all.drain(..).map(Some).collect();
    let taken = found.into_iter().map(|(finding, members)| {
        (finding, members.into_iter().filter_map(|place| places[place].take()).collect())
    });
    let taken = taken.collect();
    all.extend(places.into_iter().flatten());
    taken
}
