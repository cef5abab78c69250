//! Changes between two profiles: later − earlier per function and per stack, with the uncertainty of the difference.
//!
//! Derivation. Estimates from different samples are independent, so their variances add. Two snapshots of one process are
//! not: an allocation that is live in both was sampled once, with one weight, and cancels exactly, value and error. Let S
//! be what both hold. Then new − old = (new ∖ S) − (old ∖ S), and these two rest on different allocations: independent,
//! so that Var(new − old) = Var(new ∖ S) + Var(old ∖ S) = Var(new) + Var(old) − 2·Var(S). Whoever builds the profiles knows
//! what is shared, and says so in `Diff::shared`.

use crate::estimate::Estimate;
use crate::frames::{FrameName, FrameTable};
use crate::merge::{add_up, merge_found};
use crate::model::{Profile, SampleType};
use crate::view::{Row, Sort, TopTable, top};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use serde::Serialize;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Two profiles, without what both hold.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Only in the earlier one.
    pub old: Profile,
    /// Only in the later one.
    pub new: Profile,
    /// The same samples in both; empty for profiles of different processes.
    pub shared: Profile,
}

/// One function in both profiles.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DiffRow {
    /// The function, with flat and cum as later − earlier. Its line is where most changed.
    #[serde(flatten)]
    pub change: Row,
    /// Whether 0 lies outside the interval of the change that is shown (`Row::shown`).
    pub is_significant: bool,
    /// Flat in the earlier profile.
    pub old_flat: Estimate,
    /// Flat in the later profile.
    pub new_flat: Estimate,
}

/// The functions whose flat or cum changed.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DiffTable {
    /// The sample type that the values count.
    pub sample_type: SampleType,
    /// Total of the earlier profile.
    pub old_total: Estimate,
    /// Total of the later profile.
    pub new_total: Estimate,
    /// Later − earlier.
    #[serde(rename = "total")]
    pub change: Estimate,
    /// Whether 0 lies outside its interval.
    pub is_significant: bool,
    /// In the order asked for, by magnitude.
    pub rows: Vec<DiffRow>,
}

impl Diff {
    /// Later − earlier, as a profile with values of any sign. Stacks are equal if their frames are, as the profiles'
    /// granularity names them: addresses do not matter, so another process, another load address or a new build of the
    /// program do no harm. Labels are not compared.
    pub fn change(self) -> Profile {
        let Diff { mut old, new, .. } = self;
        let start_unix_ns = old.time_unix_ns;
        let time_unix_ns = new.time_unix_ns;
        for sample in &mut old.samples {
            sample.values = sample.values.map(|value| -value);
        }
        let mut change = Profile { start_unix_ns, time_unix_ns, ..add_up(vec![new, old]) };
        merge_equal_frames(&mut change);
        change
    }

    /// Every function that changed.
    pub fn table(self, sample_type: SampleType, sort: Sort) -> DiffTable {
        let sides = [&self.old, &self.new, &self.shared];
        let [old, new, shared] = sides.map(|profile| flat_by_name(profile, sample_type));
        let [old_total, new_total, shared_total] = sides.map(|profile| profile.total(sample_type));
        let TopTable { total: change, rows, .. } = top(&self.change(), sample_type, sort);
        let flat = |side: &HashMap<FrameName, Estimate>, name: &FrameName| {
            [side, &shared].iter().filter_map(|flats| flats.get(name)).copied().sum()
        };
        let changed = |row: &Row| row.flat.value != 0.0 || row.cum.value != 0.0;
        let rows = rows.into_iter().filter(changed).map(|change| {
            let name = change.frame();
            DiffRow {
                is_significant: change.shown().is_significant(),
                old_flat: flat(&old, &name),
                new_flat: flat(&new, &name),
                change,
            }
        });
        DiffTable {
            sample_type,
            old_total: old_total + shared_total,
            new_total: new_total + shared_total,
            change,
            is_significant: change.is_significant(),
            rows: rows.collect(),
        }
    }
}

fn flat_by_name(profile: &Profile, sample_type: SampleType) -> HashMap<FrameName, Estimate> {
    let rows = top(profile, sample_type, Sort::Name).rows.into_iter();
    rows.map(|row| (row.frame(), row.flat)).collect()
}

/// Adds up samples whose stacks have the same frames. The first one's locations stand for all of them.
fn merge_equal_frames(profile: &mut Profile) {
    let frames = FrameTable::new(profile);
    let hashing = DefaultHashBuilder::default();
    // Position and hash.
    let mut known: HashTable<(usize, u64)> = HashTable::with_capacity(profile.samples.len());
    let mut stack: Vec<usize> = Vec::new();
    merge_found(&mut profile.samples, |samples, index| {
        stack.clear();
        stack.extend(frames.stack(&samples[index]).map(|at| at.frame.index()));
        let hash = hashing.hash_one(&stack);
        let is_it = |&(at, other_hash): &(usize, u64)| {
            let other = || frames.stack(&samples[at]).map(|at| at.frame.index());
            other_hash == hash && other().eq(stack.iter().copied())
        };
        let found = known.find(hash, is_it).map(|&(at, _)| at);
        if found.is_none() {
            known.insert_unique(hash, (index, hash), |&(_, hash)| hash);
        }
        found
    });
    profile.samples.retain(|sample| !sample.values.iter().all(|value| value.is_nothing()));
    for sample in &mut profile.samples {
        sample.labels = Arc::default();
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
