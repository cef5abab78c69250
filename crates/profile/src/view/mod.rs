//! What the tables of `report` contain. A function here is whatever the profile's granularity makes a frame; each inlined
//! line is a frame of its own. `top` is one row per function, `tree` the calls from the root down, `callers` the same from the
//! leaf up, `flame` where the boxes of `tree` lie in a flame graph, `peek` the neighbours of some functions, `largest` the stacks that hold most, `sizes` and `threads` are about blocks and threads. Values are estimates;
//! text is the binary's business.
//!
//! *flat* of a function: the stacks whose innermost frame it is. *cum*: the stacks it occurs in, each counted once
//! however often it recurs, so that cum never exceeds the total of a profile that is not a diff.

mod flame;
mod largest;
mod peek;
mod sizes;
mod threads;
mod top;
mod tree;

pub use flame::{FlameBox, FlameGraph, FlameKind, flame};
pub use largest::{LargestStack, largest_stacks};
pub use peek::{Neighbour, Peek, PeekTable, peek};
pub use sizes::{SizeRow, SizeTable, sizes};
pub use threads::{ThreadRow, ThreadTable, threads};
pub use top::{Row, Sort, TopTable, top, top_of};
pub use tree::{Tree, TreeRow, TreeRowKind, callers, tree};

use crate::estimate::Estimate;
use crate::model::{Profile, SampleType, StackSample};
use std::cmp::Ordering;

/// The stacks that say something about `sample_type`, each with its estimate.
fn recorded(
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
fn by_magnitude(left: Estimate, right: Estimate) -> Ordering {
    right.value.abs().total_cmp(&left.value.abs())
}

#[cfg(test)]
#[path = "../view_tests.rs"]
mod tests;
