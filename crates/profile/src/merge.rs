//! Several profiles as one: equal mappings, functions, code addresses and stacks become one, and values add up. The
//! rule for equality is google/pprof's, so that `merge` here and `pprof -proto A B` there give the same.

use crate::estimate::Estimate;
use crate::labels::Label;
use crate::model::{Function, Line, Location, Mapping, Profile, SampleType, StackSample};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use ramson_format::LookupAddress;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Two profiles that do not count the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferentTypes {
    /// Position of the profile that differs from the first one.
    pub index: usize,
    /// The sample type that only one of the two counts.
    pub sample_type: SampleType,
}

impl fmt::Display for DifferentTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "does not count what the first profile counts: {} differs", self.sample_type)
    }
}

impl std::error::Error for DifferentTypes {}

/// The sum. Mappings are equal if build ID (or path), size and offset are: where they were loaded does not matter. The
/// header gets the earliest time, the sum of the durations, the largest interval, the first command and granularity.
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
    let duration: u64 = profiles.iter().map(duration_ns).fold(0, u64::saturating_add);
    let merged = Profile {
        time_unix_ns: time,
        start_unix_ns: time.saturating_sub(duration),
        interval_bytes: profiles.iter().map(|profile| profile.interval_bytes).max().unwrap_or(0),
        command: profiles.first().map(|first| first.command.clone()).unwrap_or_default(),
        granularity: profiles.first().map(|first| first.granularity).unwrap_or_default(),
        ..Profile::default()
    };
    let mut merger = Merger { merged, ..Merger::default() };
    for profile in profiles {
        merger.add(profile);
    }
    let mut merged = merger.merged;
    merged.samples.retain(|sample| !sample.values.iter().all(|value| value.is_nothing()));
    merged
}

fn duration_ns(profile: &Profile) -> u64 {
    match profile.start_unix_ns {
        0 => 0,
        start => profile.time_unix_ns.saturating_sub(start),
    }
}

/// Adds up samples that have the same stack and labels; the first of them says where in the order the sum stands.
pub fn merge_equal_samples(samples: &mut Vec<StackSample>) {
    let mut known = KnownStacks::with_capacity(samples.len());
    merge_found(samples, |samples, index| {
        let sample = &samples[index];
        known.find_or_insert(&sample.locations, &sample.labels, samples, index)
    });
}

/// Adds every sample for which `find` names an earlier one to that.
pub(crate) fn merge_found(
    samples: &mut Vec<StackSample>,
    mut find: impl FnMut(&[StackSample], usize) -> Option<usize>,
) {
    let mut kept: Vec<bool> = Vec::with_capacity(samples.len());
    for index in 0..samples.len() {
        let found = find(samples, index);
        kept.push(found.is_none());
        if let Some(first) = found {
            let values = samples[index].values;
            add_values(&mut samples[first].values, &values);
        }
    }
    let mut kept = kept.into_iter();
    samples.retain(|_| kept.next().unwrap_or(true));
}

/// Finds samples by stack and labels. Holds positions instead of keys, as a key is nearly as large as the sample.
#[derive(Default)]
struct KnownStacks {
    hashing: DefaultHashBuilder,
    /// Position, and half of the hash, so that growing does not go through all stacks again.
    table: HashTable<(u32, u32)>,
    labels: LabelSets,
}

impl KnownStacks {
    fn with_capacity(stacks: usize) -> KnownStacks {
        KnownStacks { table: HashTable::with_capacity(stacks), ..KnownStacks::default() }
    }

    /// The position in `samples` of that stack; where it is new, it is taken to be at `position` from now on. The labels must
    /// outlive `self`.
    fn find_or_insert(
        &mut self,
        stack: &[u32],
        labels: &Arc<[Label]>,
        samples: &[StackSample],
        position: usize,
    ) -> Option<usize> {
        let hash = self.hashing.hash_one((stack, self.labels.id(labels))) as u32;
        let is_it = |&(at, other_hash): &(u32, u32)| {
            let other = &samples[at as usize];
            other_hash == hash && other.locations == stack && other.labels == *labels
        };
        let found = self.table.find(spread(hash), is_it).map(|&(at, _)| at as usize);
        if found.is_none() {
            let entry = (position as u32, hash);
            self.table.insert_unique(spread(hash), entry, |&(_, hash)| spread(hash));
        }
        found
    }
}

/// A hash table looks at the highest bits of a hash, too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Numbers for sets of labels. A set is mostly shared by many samples, and then found by its address.
#[derive(Default)]
struct LabelSets {
    by_address: HashMap<usize, u32>,
    by_labels: HashMap<Arc<[Label]>, u32>,
}

impl LabelSets {
    fn id(&mut self, labels: &Arc<[Label]>) -> u32 {
        if labels.is_empty() {
            return 0;
        }
        *self.by_address.entry(labels.as_ptr().addr()).or_insert_with(|| {
            let next = self.by_labels.len() as u32 + 1;
            *self.by_labels.entry(labels.clone()).or_insert(next)
        })
    }
}

pub(crate) fn add_values(sums: &mut [Estimate; 4], values: &[Estimate; 4]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += *value;
    }
}

#[derive(Default)]
struct Merger {
    merged: Profile,
    mappings: HashMap<MappingKey, usize>,
    functions: HashMap<Function, usize>,
    locations: HashMap<LocationKey, usize>,
    samples: KnownStacks,
}

/// Build ID, or path where there is none; size in whole pages; file offset.
type MappingKey = (String, u64, u64);
/// Mapping, address relative to its start, lines.
type LocationKey = (Option<usize>, u64, Vec<Line>);

impl Merger {
    fn add(&mut self, profile: Profile) {
        let mappings: Vec<usize> =
            profile.mappings.iter().map(|mapping| self.mapping(mapping)).collect();
        let functions: Vec<usize> =
            profile.functions.iter().map(|function| self.function(function)).collect();
        let locations: Vec<u32> = profile
            .locations
            .iter()
            .map(|location| self.location(&profile, location, &mappings, &functions) as u32)
            .collect();
        let samples = &mut self.merged.samples;
        for mut sample in profile.samples {
            sample.locations.iter_mut().for_each(|index| *index = locations[*index as usize]);
            let stack = &sample.locations;
            let labels = &sample.labels;
            match self.samples.find_or_insert(stack, labels, samples, samples.len()) {
                Some(at) => add_values(&mut samples[at].values, &sample.values),
                None => samples.push(sample),
            }
        }
    }

    fn mapping(&mut self, mapping: &Mapping) -> usize {
        const PAGE: u64 = 4096;
        let name = if mapping.build_id.is_empty() { &mapping.path } else { &mapping.build_id };
        let pages = mapping.end.saturating_sub(mapping.start).div_ceil(PAGE);
        *self.mappings.entry((name.clone(), pages, mapping.file_offset)).or_insert_with(|| {
            self.merged.mappings.push(mapping.clone());
            self.merged.mappings.len() - 1
        })
    }

    fn function(&mut self, function: &Function) -> usize {
        *self.functions.entry(function.clone()).or_insert_with(|| {
            self.merged.functions.push(function.clone());
            self.merged.functions.len() - 1
        })
    }

    fn location(
        &mut self,
        from: &Profile,
        location: &Location,
        mappings: &[usize],
        functions: &[usize],
    ) -> usize {
        let mapping = location.mapping.map(|mapping| mappings[mapping]);
        let start = location.mapping.map_or(0, |mapping| from.mappings[mapping].start);
        let relative = location.address.0.wrapping_sub(start);
        let lines: Vec<Line> = location
            .lines
            .iter()
            .map(|line| Line { function: functions[line.function], line: line.line })
            .collect();
        let merged = &mut self.merged;
        *self.locations.entry((mapping, relative, lines)).or_insert_with_key(|(_, _, lines)| {
            let start = mapping.map_or(0, |mapping| merged.mappings[mapping].start);
            let address = LookupAddress(relative.wrapping_add(start));
            merged.locations.push(Location {
                mapping,
                address,
                lines: lines.clone(),
                offset: location.offset,
            });
            merged.locations.len() - 1
        })
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
