//! The direct callers and callees of some functions.

use super::{by_magnitude, magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use crate::pattern::Pattern;
use hashbrown::HashMap;

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
pub fn peek(profile: &Profile, sample_type: SampleType, pattern: &Pattern) -> PeekTable {
    let frames = FrameTable::new(profile);
    let is_matched: Vec<bool> =
        frames.ids().map(|id| pattern.is_match(&frames.name(id).name)).collect();
    let has_match: Vec<bool> = (0..profile.locations.len())
        .map(|location| frames.of_location(location).iter().any(|at| is_matched[at.frame.index()]))
        .collect();
    let mut sums = vec![Sums::default(); frames.len()];
    let mut calls = Calls::default();
    for (index, (sample, value)) in recorded(profile, sample_type).enumerate() {
        if !sample.locations.is_empty()
            && !sample.locations.iter().any(|&at| has_match[at as usize])
        {
            continue;
        }
        // A function counts once per stack, and so does each call.
        let stamp = index + 1;
        let mut callee: Option<FrameId> = None;
        for frame in frames.stack(sample).map(|at| at.frame) {
            let sum = &mut sums[frame.index()];
            if callee.is_none() {
                sum.flat += value;
            }
            if sum.stamp != stamp {
                sum.stamp = stamp;
                sum.cum += value;
            }
            if let Some(callee) = callee.filter(|&callee| callee != frame)
                && (is_matched[frame.index()] || is_matched[callee.index()])
            {
                calls.add(frame, callee, value, stamp);
            }
            callee = Some(frame);
        }
    }
    let mut functions: Vec<Option<Peek>> = frames
        .ids()
        .map(|id| {
            let sum = &sums[id.index()];
            (is_matched[id.index()] && sum.stamp != 0).then(|| Peek {
                function: frames.name(id).clone(),
                flat: sum.flat,
                cum: sum.cum,
                callers: Vec::new(),
                callees: Vec::new(),
            })
        })
        .collect();
    calls.hand_out(&mut functions, &frames);
    let mut functions: Vec<Peek> = functions.into_iter().flatten().collect();
    functions.sort_by(|a, b| by_magnitude(a.cum, b.cum).then_with(|| a.function.cmp(&b.function)));
    let total = profile.total(sample_type);
    PeekTable { sample_type, total, magnitude: magnitude(profile, sample_type), functions }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    flat: Estimate,
    cum: Estimate,
    /// Number from 1 of the last sample that was counted; 0: none.
    stamp: usize,
}

#[derive(Default)]
struct Calls {
    index_of: HashMap<(FrameId, FrameId), usize>,
    list: Vec<Call>,
}

struct Call {
    caller: FrameId,
    callee: FrameId,
    value: Estimate,
    stamp: usize,
}

impl Calls {
    fn add(&mut self, caller: FrameId, callee: FrameId, value: Estimate, stamp: usize) {
        let index = *self.index_of.entry((caller, callee)).or_insert_with(|| {
            self.list.push(Call { caller, callee, value: Estimate::default(), stamp: 0 });
            self.list.len() - 1
        });
        let call = &mut self.list[index];
        if call.stamp != stamp {
            call.stamp = stamp;
            call.value += value;
        }
    }

    /// Gives every function its callers and callees.
    fn hand_out(&self, functions: &mut [Option<Peek>], frames: &FrameTable) {
        for call in &self.list {
            let neighbour = |other: FrameId, cum: f64| {
                let share = if cum == 0.0 { 0.0 } else { call.value.value / cum };
                Neighbour { function: frames.name(other).clone(), value: call.value, share }
            };
            if let Some(peek) = &mut functions[call.caller.index()] {
                peek.callees.push(neighbour(call.callee, peek.cum.value));
            }
            if let Some(peek) = &mut functions[call.callee.index()] {
                peek.callers.push(neighbour(call.caller, peek.cum.value));
            }
        }
        for peek in functions.iter_mut().flatten() {
            for list in [&mut peek.callers, &mut peek.callees] {
                list.sort_by(|a, b| {
                    by_magnitude(a.value, b.value).then_with(|| a.function.cmp(&b.function))
                });
            }
        }
    }
}
