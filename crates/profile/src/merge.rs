//! Several profiles as one: equal mappings, functions, code addresses and stacks become one, and values add up. What is
//! equal is google/pprof's rule, so that `merge` here and `pprof -proto A B` there give the same.

use crate::estimate::Estimate;
use crate::labels::Label;
use crate::model::{Function, Line, Location, Mapping, Profile, SampleType, StackSample};
use hashbrown::DefaultHashBuilder;
use indexmap::{IndexMap, IndexSet};
use ramson_format::LookupAddress;
use std::fmt;
use std::sync::Arc;

/// Two profiles that do not count the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferentTypes {
    /// Position of the profile that differs from the first one.
    pub index: usize,
    /// What only one of the two counts.
    pub sample_type: SampleType,
}

impl fmt::Display for DifferentTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "does not count what the first profile counts: {} differs", self.sample_type)
    }
}

impl std::error::Error for DifferentTypes {}

/// The sum. Mappings are equal if build ID (or path), size and offset are: where they were loaded does not matter. Of the
/// headers: the earliest time, the sum of the durations, the largest interval, the first command and granularity.
///
/// The estimates must come from different samples, or their variances do not add. Stacks are moved, not copied.
pub fn merge(profiles: Vec<Profile>) -> Result<Profile, DifferentTypes> {
    let counts = |profile: &Profile, sample_type| {
        !profile.samples.iter().any(|sample| sample.value(sample_type).value.is_nan())
    };
    for (index, profile) in profiles.iter().enumerate() {
        let differs = |of: &SampleType| counts(profile, *of) != counts(&profiles[0], *of);
        if let Some(sample_type) = SampleType::ALL.into_iter().find(differs) {
            return Err(DifferentTypes { index, sample_type });
        }
    }
    Ok(add_up(profiles))
}

/// The sum of profiles that count the same.
pub(crate) fn add_up(profiles: Vec<Profile>) -> Profile {
    let times = profiles.iter().map(|profile| profile.time_unix_ns);
    let time = times.filter(|&time| time != 0).min().unwrap_or(0);
    let duration = profiles.iter().map(duration_ns).fold(0, u64::saturating_add);
    let sum = Profile {
        time_unix_ns: time,
        start_unix_ns: time.saturating_sub(duration),
        interval_bytes: profiles.iter().map(|profile| profile.interval_bytes).max().unwrap_or(0),
        command: profiles.first().map(|first| first.command.clone()).unwrap_or_default(),
        granularity: profiles.first().map(|first| first.granularity).unwrap_or_default(),
        ..Profile::default()
    };
    let mut merger = Merger::default();
    for profile in profiles {
        merger.add(profile);
    }
    let start = |mapping: Option<usize>| mapping.map_or(0, |index| merger.mappings[index].start);
    let location = |(mapping, relative, lines): LocationKey| {
        let address = LookupAddress(start(mapping).wrapping_add(relative));
        Location { mapping, address, lines }
    };
    Profile {
        locations: merger.locations.into_iter().map(location).collect(),
        mappings: merger.mappings.into_values().collect(),
        functions: merger.functions.into_iter().collect(),
        samples: merger.samples.into_samples().filter(|sample| !sample.is_nothing()).collect(),
        ..sum
    }
}

fn duration_ns(profile: &Profile) -> u64 {
    match profile.start_unix_ns {
        0 => 0,
        start => profile.time_unix_ns.saturating_sub(start),
    }
}

/// Adds up samples that have the same stack and labels; the first of them says where in the order the sum stands.
pub fn merge_equal_samples(samples: &mut Vec<StackSample>) {
    let mut sums = SampleSums::default();
    sums.0.reserve(samples.len());
    std::mem::take(samples).into_iter().for_each(|sample| sums.add(sample));
    *samples = sums.into_samples().collect();
}

/// Values by stack and labels, in the order of the first of each.
#[derive(Default)]
struct SampleSums(IndexMap<SampleKey, [Estimate; 4], DefaultHashBuilder>);

type SampleKey = (Vec<u32>, Arc<[Label]>);

impl SampleSums {
    fn add(&mut self, StackSample { locations, labels, values }: StackSample) {
        add_values(self.0.entry((locations, labels)).or_default(), &values);
    }

    fn into_samples(self) -> impl Iterator<Item = StackSample> {
        let samples = self.0.into_iter();
        samples.map(|((locations, labels), values)| StackSample { locations, labels, values })
    }
}

pub(crate) fn add_values(sums: &mut [Estimate; 4], values: &[Estimate; 4]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += *value;
    }
}

#[derive(Default)]
struct Merger {
    mappings: IndexMap<MappingKey, Mapping>,
    functions: IndexSet<Function>,
    locations: IndexSet<LocationKey>,
    samples: SampleSums,
}

/// Build ID, or path where there is none; size in whole pages; file offset.
type MappingKey = (String, u64, u64);
/// Mapping, address relative to its start, lines.
type LocationKey = (Option<usize>, u64, Vec<Line>);

impl Merger {
    fn add(&mut self, profile: Profile) {
        let starts: Vec<u64> = profile.mappings.iter().map(|mapping| mapping.start).collect();
        let mappings: Vec<usize> =
            profile.mappings.into_iter().map(|mapping| self.mapping(mapping)).collect();
        let functions = profile.functions.into_iter();
        let functions: Vec<usize> =
            functions.map(|function| self.functions.insert_full(function).0).collect();
        let location = |Location { mapping, address, lines }: Location| {
            let relative = address.0.wrapping_sub(mapping.map_or(0, |index| starts[index]));
            let line = |line: Line| Line { function: functions[line.function], ..line };
            let lines = lines.into_iter().map(line).collect();
            let key = (mapping.map(|index| mappings[index]), relative, lines);
            self.locations.insert_full(key).0 as u32
        };
        let locations: Vec<u32> = profile.locations.into_iter().map(location).collect();
        for mut sample in profile.samples {
            sample.locations.iter_mut().for_each(|index| *index = locations[*index as usize]);
            self.samples.add(sample);
        }
    }

    fn mapping(&mut self, mapping: Mapping) -> usize {
        const PAGE: u64 = 4096;
        let name = if mapping.build_id.is_empty() { &mapping.path } else { &mapping.build_id };
        let pages = mapping.end.saturating_sub(mapping.start).div_ceil(PAGE);
        let entry = self.mappings.entry((name.clone(), pages, mapping.file_offset));
        let index = entry.index();
        entry.or_insert(mapping);
        index
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
