//! The direct callers and callees of some functions.

use super::magnitude::{by_magnitude, magnitude, recorded};
use super::top::{Numbers, Once};
use crate::estimate::Estimate;
use crate::frames::{FrameId, FrameName, FrameTable};
use crate::model::{Profile, SampleType};
use crate::pattern::Pattern;
use hashbrown::HashTable;
use serde::Serialize;

/// The functions whose name matched.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PeekTable {
    /// The sample type that the values count.
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
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
    peek_in_parts(profile, sample_type, pattern, CALLS_AT_ONCE)
}

/// The same with another number of calls in one part.
pub(super) fn peek_in_parts(
    profile: &Profile,
    sample_type: SampleType,
    pattern: &Pattern,
    calls_at_once: usize,
) -> PeekTable {
    let frames = FrameTable::new(profile);
    let seen = Seen::new(profile, sample_type, &frames, pattern);
    let (sums, calls) = seen.sum_functions();
    let mut functions: Vec<Option<Peek>> = frames
        .ids()
        .zip(&sums)
        .map(|(id, sum)| {
            (seen.is_matched[id.index()] && sum.cum.stamp != 0).then(|| Peek {
                function: frames.name(id).clone(),
                flat: sum.flat,
                cum: sum.cum.sum,
                callers: Vec::new(),
                callees: Vec::new(),
            })
        })
        .collect();
    let parts = (calls / calls_at_once).next_power_of_two().min(MOST_PARTS);
    for part in 0..parts {
        seen.sum_calls(part, parts).hand_out(&mut functions, &frames);
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

/// Calls in stacks that are summed up in one table: so few that the table stays in the processor's cache, or nearly.
const CALLS_AT_ONCE: usize = 4 << 20;
/// Each part goes through all stacks.
const MOST_PARTS: usize = 8;

#[derive(Clone, Copy, Default)]
struct Sums {
    flat: Estimate,
    cum: Once<Estimate>,
}

/// The stacks with functions that matched.
struct Seen<'a> {
    profile: &'a Profile,
    sample_type: SampleType,
    numbers: Numbers,
    /// By `FrameId::index`.
    is_matched: Vec<bool>,
    /// By location.
    has_match: Vec<bool>,
}

impl<'a> Seen<'a> {
    fn new(
        profile: &'a Profile,
        sample_type: SampleType,
        frames: &FrameTable,
        pattern: &Pattern,
    ) -> Self {
        let is_matched: Vec<bool> =
            frames.ids().map(|id| pattern.is_match(&frames.name(id).name)).collect();
        let is_any =
            |location| frames.of_location(location).iter().any(|at| is_matched[at.frame.index()]);
        let has_match = (0..profile.locations.len()).map(is_any).collect();
        let numbers = Numbers::of_frames(profile, frames);
        Self { profile, sample_type, numbers, is_matched, has_match }
    }

    /// Calls `each` with index and estimate of every stack, each of its frames and what that one called.
    fn each_frame(&self, mut each: impl FnMut(usize, Estimate, u32, Option<u32>)) {
        for (index, (sample, value)) in recorded(self.profile, self.sample_type).enumerate() {
            let stack = &sample.locations;
            if !stack.is_empty() && !stack.iter().any(|&at| self.has_match[at as usize]) {
                continue;
            }
            let mut callee = None;
            self.numbers.each_of(sample, |frame| {
                each(index, value, frame, callee);
                callee = Some(frame);
            });
        }
    }

    fn is_call(&self, caller: u32, callee: u32) -> bool {
        caller != callee && (self.is_matched[caller as usize] || self.is_matched[callee as usize])
    }

    /// Flat and cum of every function, and how many calls there are in all stacks.
    fn sum_functions(&self) -> (Vec<Sums>, usize) {
        let mut sums = vec![Sums::default(); self.is_matched.len()];
        let mut calls = 0;
        self.each_frame(|index, value, frame, callee| {
            let sum = &mut sums[frame as usize];
            sum.cum.add(index, value);
            match callee {
                None => sum.flat += value,
                Some(callee) => calls += usize::from(self.is_call(frame, callee)),
            }
        });
        (sums, calls)
    }

    /// The calls of functions whose number is `part` of a power of two of `parts`.
    fn sum_calls(&self, part: usize, parts: usize) -> Calls {
        let mut calls = Calls::default();
        self.each_frame(|index, value, caller, callee| {
            if let Some(callee) = callee
                && callee as usize & (parts - 1) == part
                && self.is_call(caller, callee)
            {
                calls.add(caller, callee, value, index);
            }
        });
        calls
    }
}

#[derive(Default)]
struct Calls {
    table: HashTable<Call>,
}

/// Functions by `FrameId::index`. A stack counts once.
struct Call {
    caller: u32,
    callee: u32,
    value: Once<Estimate>,
}

impl Call {
    fn hash(caller: u32, callee: u32) -> u64 {
        let both =
            (u64::from(caller) << 32 | u64::from(callee)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        both ^ both >> 32
    }
}

impl Calls {
    #[inline]
    fn add(&mut self, caller: u32, callee: u32, value: Estimate, index: usize) {
        let is_it = |call: &Call| call.caller == caller && call.callee == callee;
        let rehash = |call: &Call| Call::hash(call.caller, call.callee);
        let entry = self.table.entry(Call::hash(caller, callee), is_it, rehash);
        let new = || Call { caller, callee, value: Once::default() };
        entry.or_insert_with(new).into_mut().value.add(index, value);
    }

    /// Gives every function its callers and callees.
    fn hand_out(&self, functions: &mut [Option<Peek>], frames: &FrameTable) {
        for call in &self.table {
            let value = call.value.sum;
            let neighbour = |other: u32, cum: f64| {
                let share = if cum == 0.0 { 0.0 } else { value.value / cum };
                let function = frames.name(FrameId::of_index(other)).clone();
                Neighbour { function, value, share }
            };
            if let Some(peek) = &mut functions[call.caller as usize] {
                peek.callees.push(neighbour(call.callee, peek.cum.value));
            }
            if let Some(peek) = &mut functions[call.callee as usize] {
                peek.callers.push(neighbour(call.caller, peek.cum.value));
            }
        }
    }
}
