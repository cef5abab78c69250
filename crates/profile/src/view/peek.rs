//! The direct callers and callees of some functions.

use super::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use regex::Regex;
use std::collections::BTreeMap;

/// The functions whose name matched.
#[derive(Clone, Debug, PartialEq)]
pub struct PeekTable {
    /// What the values count.
    pub sample_type: SampleType,
    /// Sum over all stacks.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of percentages. Equals `total.value` unless the profile is a diff.
    pub magnitude: f64,
    /// By |cum|. Empty if nothing matched.
    pub functions: Vec<Peek>,
}

/// One function and its neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct Peek {
    /// The function.
    pub function: FrameName,
    /// Its own allocations.
    pub flat: Estimate,
    /// Its own and its callees'.
    pub cum: Estimate,
    /// Who called it, by |value|. A stack counts once per caller, so with recursion the sum may exceed `cum`.
    pub callers: Vec<Neighbour>,
    /// Whom it called, likewise.
    pub callees: Vec<Neighbour>,
}

/// A caller or callee.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The other function.
    pub function: FrameName,
    /// Stacks with this call in them.
    pub value: Estimate,
    /// `value` / cum of the function peeked at; 0 where that is 0.
    pub share: f64,
}

/// Callers and callees of every function whose name matches `pattern` anywhere. Calls of a function to itself are not
/// listed, as in pprof.
pub fn peek(profile: &Profile, sample_type: SampleType, pattern: &Regex) -> PeekTable {
    let frames = FrameTable::new(profile);
    let matched: Vec<bool> =
        frames.ids().map(|id| pattern.is_match(&frames.name(id).name)).collect();
    let is_matched = |id: &FrameId| matched[id.index()];
    let mut sums: BTreeMap<FrameId, Sums> = BTreeMap::new();
    let mut stack: Vec<FrameId> = Vec::new();
    let mut calls: Vec<(FrameId, FrameId)> = Vec::new();
    for (sample, value) in recorded(profile, sample_type) {
        stack.clear();
        stack.extend(frames.stack(sample).map(|at| at.frame));
        if is_matched(&stack[0]) {
            sums.entry(stack[0]).or_default().flat += value;
        }
        calls.clear();
        calls.extend(stack.windows(2).map(|pair| (pair[1], pair[0])));
        calls.retain(|(caller, callee)| caller != callee);
        calls.sort_unstable();
        calls.dedup();
        for &(caller, callee) in &calls {
            if is_matched(&caller) {
                *sums.entry(caller).or_default().callees.entry(callee).or_default() += value;
            }
            if is_matched(&callee) {
                *sums.entry(callee).or_default().callers.entry(caller).or_default() += value;
            }
        }
        stack.sort_unstable();
        stack.dedup();
        for &id in stack.iter().filter(|id| is_matched(id)) {
            sums.entry(id).or_default().cum += value;
        }
    }
    let mut functions: Vec<Peek> =
        sums.iter().map(|(&id, sums)| sums.finish(id, &frames)).collect();
    functions.sort_by(|a, b| by_magnitude(a.cum, b.cum).then_with(|| a.function.cmp(&b.function)));
    let total = profile.total(sample_type);
    PeekTable { sample_type, total, magnitude: magnitude(profile, sample_type), functions }
}

#[derive(Default)]
struct Sums {
    flat: Estimate,
    cum: Estimate,
    callers: BTreeMap<FrameId, Estimate>,
    callees: BTreeMap<FrameId, Estimate>,
}

impl Sums {
    fn finish(&self, id: FrameId, frames: &FrameTable) -> Peek {
        let neighbours = |calls: &BTreeMap<FrameId, Estimate>| {
            let mut list: Vec<Neighbour> = calls
                .iter()
                .map(|(&other, &value)| {
                    let share =
                        if self.cum.value == 0.0 { 0.0 } else { value.value / self.cum.value };
                    Neighbour { function: frames.name(other).clone(), value, share }
                })
                .collect();
            list.sort_by(|a, b| {
                by_magnitude(a.value, b.value).then_with(|| a.function.cmp(&b.function))
            });
            list
        };
        Peek {
            function: frames.name(id).clone(),
            flat: self.flat,
            cum: self.cum,
            callers: neighbours(&self.callers),
            callees: neighbours(&self.callees),
        }
    }
}
