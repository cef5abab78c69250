//! Stacks that a suppression hides.

use ramson_leaks::Suppressions;
use ramson_profile::{FrameTable, Profile, SampleType, StackSample};

/// Removes them; returns how many of them hold live memory. A pattern may match names of functions, source files and
/// binaries of any frame.
pub fn remove(profile: &mut Profile, suppressions: &Suppressions) -> usize {
    let table = FrameTable::new(profile);
    let is_hidden = |sample: &StackSample| {
        let frames = table.stack(sample).map(|at| table.name(at.frame));
        let mut searched: Vec<&str> =
            frames.flat_map(|frame| [&*frame.name, &*frame.file]).collect();
        searched.extend(sample.locations.iter().filter_map(|&location| {
            let mapping = profile.locations[location as usize].mapping?;
            Some(profile.mappings[mapping].path.as_str())
        }));
        searched.retain(|name| !name.is_empty());
        suppressions.matching(searched.into_iter()).is_some()
    };
    let hidden: Vec<bool> = profile.samples.iter().map(is_hidden).collect();
    let mut hidden = hidden.into_iter();
    let mut holding = 0;
    profile.samples.retain(|sample| {
        let is_hidden = hidden.next().unwrap_or(false);
        let is_live = sample.value(SampleType::InuseSpace).value > 0.0;
        holding += usize::from(is_hidden && is_live);
        !is_hidden
    });
    holding
}
