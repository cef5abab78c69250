//! The few stacks that hold most.

use super::magnitude::{by_magnitude, recorded};
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameName, FrameTable};
use crate::model::{Profile, SampleType, StackSample};
use crate::stacks::Stacks;

/// One stack as its frames are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestStack {
    /// Those that are shown, leaf first.
    pub frames: Vec<FrameAt>,
    /// Sum of all stacks that look like this one.
    pub value: Estimate,
}

/// The `most` stacks with the largest values, by magnitude. Stacks are one if the frames that are shown and their lines are the
/// same, whatever their labels and code addresses.
pub fn largest_stacks(
    profile: &Profile,
    frames: &FrameTable,
    sample_type: SampleType,
    is_shown: impl Fn(&FrameName) -> bool,
    most: usize,
) -> Vec<LargestStack> {
    let is_shown: Vec<bool> =
        frames.places().iter().map(|at| is_shown(frames.name(at.frame))).collect();
    let shown = |sample| frames.places_of(sample).filter(|&place| is_shown[place as usize]);
    let (samples, values): (Vec<&StackSample>, Vec<Estimate>) =
        recorded(profile, sample_type).unzip();
    let mut stacks: Stacks = samples.into_iter().map(shown).collect();
    let sorted = stacks.sorted();
    let sum_of_equal = |equal| {
        let sum: Estimate = stacks.members(equal).map(|index| values[index]).sum();
        (stacks.first(equal), sum)
    };
    let mut sums: Vec<(usize, Estimate)> = sorted.iter().map(sum_of_equal).collect();
    // Of equal ones the first.
    let order = |left: &(usize, Estimate), right: &(usize, Estimate)| {
        by_magnitude(left.1, right.1).then(left.0.cmp(&right.0))
    };
    if most < sums.len() {
        sums.select_nth_unstable_by(most, order);
        sums.truncate(most);
    }
    sums.sort_by(order);
    let stack = |&(first, value): &(usize, Estimate)| {
        let places = stacks.get(first).iter();
        LargestStack {
            frames: places.map(|&place| frames.places()[place as usize]).collect(),
            value,
        }
    };
    sums.iter().map(stack).collect()
}
