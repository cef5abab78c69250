//! What changed between two profiles: later − earlier per function and per stack, with the uncertainty of the difference.
//!
//! Derivation. Estimates from different samples are independent, so their variances add. Two snapshots of one process are
//! not: an allocation that is live in both was sampled once, with one weight, and cancels exactly, value and error. Let S
//! be what both hold. Then new − old = (new ∖ S) − (old ∖ S), and these two rest on different allocations: independent,
//! so that Var(new − old) = Var(new ∖ S) + Var(old ∖ S) = Var(new) + Var(old) − 2·Var(S). Whoever builds the profiles knows
//! what is shared, and says so in `Diff::shared`.

use crate::estimate::Estimate;
use crate::frames::{FrameName, FrameTable};
use crate::merge::{add_up, add_values};
use crate::model::{Profile, SampleType, StackSample};
use crate::view::{Row, Sort, TopTable, top};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::BuildHasher;
use std::slice;
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
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow {
    /// The function, with flat and cum as later − earlier. Its line is where most changed.
    pub change: Row,
    /// Flat in the earlier profile.
    pub old_flat: Estimate,
    /// Flat in the later profile.
    pub new_flat: Estimate,
}

/// The functions whose flat or cum changed.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffTable {
    /// What the values count.
    pub sample_type: SampleType,
    /// Total of the earlier profile.
    pub old_total: Estimate,
    /// Total of the later profile.
    pub new_total: Estimate,
    /// Later − earlier.
    pub change: Estimate,
    /// In the order asked for, by magnitude.
    pub rows: Vec<DiffRow>,
}

impl Diff {
    /// Later − earlier, as a profile with values of any sign. Stacks are equal if their frames are, as the profiles'
    /// granularity names them: addresses do not matter, so another process, another load address or a new build of the
    /// program do no harm. Labels are not compared.
    pub fn change(&self) -> Profile {
        let mut change = add_up(slice::from_ref(&self.new), &[&self.old]);
        merge_equal_frames(&mut change);
        change.start_unix_ns = self.old.time_unix_ns;
        change.time_unix_ns = self.new.time_unix_ns;
        change
    }

    /// Every function that changed.
    pub fn table(&self, sample_type: SampleType, sort: Sort) -> DiffTable {
        let TopTable { total: change, rows, .. } = top(&self.change(), sample_type, sort);
        let sides = [&self.old, &self.new, &self.shared];
        let [old, new, shared] = sides.map(|profile| flat_by_name(profile, sample_type));
        let [old_total, new_total, shared_total] = sides.map(|profile| profile.total(sample_type));
        let flat = |side: &HashMap<FrameName, Estimate>, name: &FrameName| {
            let of =
                |flats: &HashMap<FrameName, Estimate>| flats.get(name).copied().unwrap_or_default();
            of(side) + of(&shared)
        };
        let rows = rows.into_iter().map(|change| {
            let name = change.frame();
            DiffRow { old_flat: flat(&old, &name), new_flat: flat(&new, &name), change }
        });
        DiffTable {
            sample_type,
            old_total: old_total + shared_total,
            new_total: new_total + shared_total,
            change,
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
    let mut merged: Vec<StackSample> = Vec::with_capacity(profile.samples.len());
    let mut stack: Vec<usize> = Vec::new();
    for sample in profile.samples.drain(..) {
        stack.clear();
        stack.extend(frames.stack(&sample).map(|at| at.frame.index()));
        let hash = hashing.hash_one(&stack);
        let is_it = |&(at, other_hash): &(usize, u64)| {
            let other = || frames.stack(&merged[at]).map(|at| at.frame.index());
            other_hash == hash && other().eq(stack.iter().copied())
        };
        match known.find(hash, is_it) {
            Some(&(at, _)) => add_values(&mut merged[at].values, &sample.values),
            None => {
                known.insert_unique(hash, (merged.len(), hash), |&(_, hash)| hash);
                merged.push(StackSample { labels: Arc::default(), ..sample });
            }
        }
    }
    merged.retain(|sample| !sample.values.iter().all(|value| value.is_nothing()));
    profile.samples = merged;
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
