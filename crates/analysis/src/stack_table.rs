//! The stacks that hold most, each with how old its memory is and how fast it grows; and what else the profile shows.

use crate::question::{MIN_AGE_NS, Question};
use crate::rss::{Before, Rss};
use crate::suspects::NamedStack;
use ramson_leaks::{Ages, Growth, Verdict};
use ramson_process::Term;
use ramson_profile::view::{LargestStack, largest_stacks};
use ramson_profile::{Estimate, FrameId, FrameName, FrameTable, Profile, SampleType};
use serde::Serialize;
use std::collections::HashMap;

/// Memory below this share of RSS, and below so many bytes, is not worth a line.
const LEAST_SHARE: f64 = 0.05;
const LEAST_BYTES: f64 = (1 << 20) as f64;

/// The stacks with the largest values.
#[derive(Serialize, schemars::JsonSchema)]
pub struct StackTable {
    /// Sample type that was counted.
    #[serde(serialize_with = "as_name")]
    #[schemars(with = "String")]
    pub sample_type: SampleType,
    /// Sum over all stacks that pass the filters.
    pub total: Estimate,
    /// How old the live bytes of all of them are; `None` where the profile does not say.
    pub ages: Option<Ages>,
    /// Frames of libraries and of wrappers around malloc were taken out of the stacks.
    pub is_folded: bool,
    /// The function that allocated most, in all of its stacks; null: there is none.
    pub largest_function: Option<FunctionSum>,
    /// The largest first.
    pub rows: Vec<StackRow>,
    /// All rows were asked for.
    #[serde(skip)]
    pub has_all: bool,
}

/// All stacks of which a function is the innermost.
#[derive(Serialize, schemars::JsonSchema)]
pub struct FunctionSum {
    /// The function, line 0.
    #[serde(flatten)]
    pub function: FrameName,
    /// Their sum.
    pub value: Estimate,
}

impl FunctionSum {
    fn largest(profile: &Profile, frames: &FrameTable, sample_type: SampleType) -> Option<Self> {
        let mut sums: HashMap<FrameId, Estimate> = HashMap::new();
        for sample in &profile.samples {
            let innermost = frames.stack(sample).next()?.frame;
            *sums.entry(innermost).or_default() += sample.value(sample_type);
        }
        let largest = sums.into_iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let (frame, value) = largest.filter(|(_, value)| value.value > 0.0)?;
        Some(Self { function: frames.name(frame).clone(), value })
    }
}

/// Stacks that look the same.
#[derive(Serialize, schemars::JsonSchema)]
pub struct StackRow {
    /// Value of the stacks, in the unit of the sample type.
    pub value: Estimate,
    /// How many allocations that is.
    pub objects: Estimate,
    /// Ages of the live bytes; null if the profile does not say when they were allocated.
    pub ages: Option<Ages>,
    /// Growth of the live bytes; null unless the stack is a leak suspect.
    pub growth: Option<Growth>,
    /// Leaf first.
    pub frames: Vec<FrameName>,
}

/// Other commands that have more to say.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Pointers {
    /// How many leak suspects grow.
    pub growing: usize,
    /// Bytes per hour of these.
    pub growth_per_hour: Estimate,
    /// Free in the allocator, where it is much of RSS.
    pub free: Option<Estimate>,
    /// Bytes of `free` that a trim would return; null if the allocator does not tell.
    pub releasable: Option<u64>,
    /// Memory from before the fork, where it is much of RSS and the parent's profile has it.
    pub inherited: Option<Inherited>,
}

/// Memory that a process has from its parent, or that ramson does not see.
#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct Inherited {
    /// How much that is.
    pub bytes: Estimate,
    /// The process that allocated it.
    pub parent: u64,
}

fn as_name<S: serde::Serializer>(of: &SampleType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(of.name())
}

impl StackTable {
    /// The largest stacks of a profile; `histories` are of the same stacks.
    pub fn of(
        profile: &Profile,
        histories: &[NamedStack],
        is_folded: bool,
        question: &Question,
        sample_type: SampleType,
    ) -> Self {
        let frames = FrameTable::new(profile);
        let most = if question.rows == 0 { usize::MAX } else { question.rows };
        let is_live = matches!(sample_type, SampleType::InuseSpace | SampleType::InuseObjects);
        let histories = if is_live { histories } else { &[] };
        let of_frames: HashMap<&[FrameName], &NamedStack> =
            histories.iter().map(|stack| (stack.frames.as_slice(), stack)).collect();
        let row = |stack: LargestStack| {
            let frames: Vec<FrameName> =
                stack.frames.iter().map(|&at| frames.name_at(at)).collect();
            let finding =
                of_frames.get(frames.as_slice()).map(|of| of.judged(histories.len(), MIN_AGE_NS));
            StackRow {
                value: stack.value,
                objects: stack.objects,
                ages: finding.as_ref().and_then(|finding| finding.ages.clone()),
                growth: finding
                    .filter(|it| it.verdict == Verdict::Growing)
                    .and_then(|it| it.growth),
                frames,
            }
        };
        let stacks = largest_stacks(profile, &frames, sample_type, most);
        Self {
            sample_type,
            total: profile.total(sample_type),
            ages: Ages::of(histories.iter().map(|stack| &stack.history)),
            is_folded,
            largest_function: FunctionSum::largest(profile, &frames, sample_type),
            rows: stacks.into_iter().map(row).collect(),
            has_all: question.rows == 0,
        }
    }
}

impl Pointers {
    /// Returns the pointers for a process, or several, with this RSS and these growing leak suspects.
    pub fn of(rss: Option<&Rss>, growing: &[Growth]) -> Self {
        let is_much = |rss: &Rss, of: Estimate| {
            of.value >= LEAST_BYTES && of.value >= LEAST_SHARE * rss.bytes as f64
        };
        let free = rss.map(|rss| (rss, rss.term(Term::Free)));
        let free = free.filter(|&(rss, free)| is_much(rss, free));
        let inherited = rss.and_then(|rss| {
            let bytes = rss.term(Term::Inherited) + rss.term(Term::Unseen);
            let is_told =
                rss.before == Some(Before::Fork) && bytes.is_significant() && is_much(rss, bytes);
            rss.parent.filter(|_| is_told).map(|parent| Inherited { bytes, parent })
        });
        let releasable = free.and_then(|(rss, _)| rss.releasable);
        Self {
            growing: growing.len(),
            growth_per_hour: growing.iter().map(|growth| growth.per_hour).sum(),
            free: free.map(|(_, free)| free),
            releasable,
            inherited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rss::half_unseen;

    #[test]
    fn inherited_memory_points_to_parent() {
        let pointed = |half_width, before, parent| {
            let mut rss = half_unseen(200.0, 180.0, half_width, before);
            rss.parent = parent;
            Pointers::of(Some(&rss), &[]).inherited.map(|of| of.parent)
        };
        assert_eq!(pointed(5.0, Before::Fork, Some(7)), Some(7));
        assert_eq!(pointed(5.0, Before::Fork, None), None);
        assert_eq!(pointed(5.0, Before::Attach, Some(7)), None);
        assert_eq!(pointed(30.0, Before::Fork, Some(7)), None, "may be nothing");
    }
}
