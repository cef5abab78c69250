//! Stacks that count for a table: those with a value; and how large values are, whatever their sign.

use crate::estimate::Estimate;
use crate::model::{Profile, SampleType, StackSample};
use std::cmp::Ordering;

/// The stacks that say something about `sample_type`, each with its estimate.
pub(super) fn recorded(
    profile: &Profile,
    sample_type: SampleType,
) -> impl Iterator<Item = (&StackSample, Estimate)> {
    let samples = profile.samples.iter().map(move |sample| (sample, sample.value(sample_type)));
    samples.filter(|(_, value)| !value.is_nothing())
}

/// Sum of |value| over all stacks: what a share is a share of. Equal to the total unless the profile is a diff, where
/// the total may be 0 while much has moved.
pub fn magnitude(profile: &Profile, sample_type: SampleType) -> f64 {
    recorded(profile, sample_type).map(|(_, value)| value.value.abs()).sum()
}

/// Larger magnitude first.
pub(super) fn by_magnitude(left: Estimate, right: Estimate) -> Ordering {
    right.value.abs().total_cmp(&left.value.abs())
}
