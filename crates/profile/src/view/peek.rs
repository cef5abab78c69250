//! The direct callers and callees of some functions.

use super::magnitude::{by_magnitude, magnitude, recorded};
use super::top::Once;
use crate::estimate::Estimate;
use crate::frames::{FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use crate::pattern::Pattern;
use hashbrown::HashMap;
use serde::Serialize;

/// The functions whose name matched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeekTable {
    /// What the values count.
    pub sample_type: SampleType,
    /// Sum over all stacks.
    pub total: Estimate,
    /// Sum of |value| over all stacks: base of percentages. Equals `total.value` unless the profile is a diff.
    #[serde(skip)]
    pub magnitude: f64,
    /// By |cum|. Empty if nothing matched.
    pub functions: Vec<Peek>,
}

/// One function and its neighbours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peek {
    /// The function.
    #[serde(flatten)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// The other function.
    #[serde(flatten)]
    pub function: FrameName,
    /// Stacks with this call in them.
    pub value: Estimate,
    /// `value` / cum of the function peeked at; 0 where that is 0.
    #[serde(skip)]
    pub share: f64,
}

/// Callers and callees of every function whose name matches `pattern` anywhere. Calls of a function to itself are not
/// listed, as in pprof.
pub fn peek(profile: &Profile, sample_type: SampleType, pattern: &Pattern) -> PeekTable {
    let frames = FrameTable::new(profile);
    let is_matched: Vec<bool> =
        frames.ids().map(|id| pattern.is_match(&frames.name(id).name)).collect();
    let mut sums = vec![(Estimate::default(), Once::default()); is_matched.len()];
    let mut calls: HashMap<(FrameId, FrameId), Once<Estimate>> = HashMap::new();
    for (index, (sample, value)) in recorded(profile, sample_type).enumerate() {
        let mut callee: Option<FrameId> = None;
        for caller in frames.stack(sample).map(|at| at.frame) {
            let (flat, cum) = &mut sums[caller.index()];
            cum.add(index, value);
            match callee {
                None => *flat += value,
                Some(callee) if callee == caller => {}
                Some(callee) if is_matched[caller.index()] || is_matched[callee.index()] => {
                    calls.entry((caller, callee)).or_default().add(index, value);
                }
                Some(_) => {}
            }
            callee = Some(caller);
        }
    }
    let peek = |(id, (flat, cum)): (FrameId, (Estimate, Once<Estimate>))| {
        (is_matched[id.index()] && cum.stamp != 0).then(|| Peek {
            function: frames.name(id).clone(),
            flat,
            cum: cum.sum,
            callers: Vec::new(),
            callees: Vec::new(),
        })
    };
    let mut functions: Vec<Option<Peek>> = frames.ids().zip(sums).map(peek).collect();
    for ((caller, callee), Once { sum: value, .. }) in calls {
        let neighbour = |other: FrameId, cum: f64| {
            let share = if cum == 0.0 { 0.0 } else { value.value / cum };
            Neighbour { function: frames.name(other).clone(), value, share }
        };
        if let Some(peek) = &mut functions[caller.index()] {
            peek.callees.push(neighbour(callee, peek.cum.value));
        }
        if let Some(peek) = &mut functions[callee.index()] {
            peek.callers.push(neighbour(caller, peek.cum.value));
        }
    }
    let mut functions: Vec<Peek> = functions.into_iter().flatten().collect();
    for list in functions.iter_mut().flat_map(|peek| [&mut peek.callers, &mut peek.callees]) {
        list.sort_by(|a, b| {
            by_magnitude(a.value, b.value).then_with(|| a.function.cmp(&b.function))
        });
    }
    functions.sort_by(|a, b| by_magnitude(a.cum, b.cum).then_with(|| a.function.cmp(&b.function)));
    let total = profile.total(sample_type);
    PeekTable { sample_type, total, magnitude: magnitude(profile, sample_type), functions }
}
