//! The stacks that hold most.

use super::magnitude::by_magnitude;
use crate::estimate::Estimate;
use crate::frames::{FrameAt, FrameTable};
use crate::model::{Profile, SampleType, StackSample};
use hashbrown::{HashMap, HashTable};

/// One stack as its frames are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestStack {
    /// Leaf first.
    pub frames: Vec<FrameAt>,
    /// Sum of all stacks that look like this one.
    pub value: Estimate,
    /// How many allocations that is, of the same sample type.
    pub objects: Estimate,
}

/// The `most` stacks with the largest values, by magnitude. Stacks are one if their frames and lines are the same, whatever
/// their labels and code addresses.
pub fn largest_stacks(
    profile: &Profile,
    frames: &FrameTable,
    sample_type: SampleType,
    most: usize,
) -> Vec<LargestStack> {
    let looks = Looks::new(profile, frames);
    let counted =
        |sample: &StackSample| [sample.value(sample_type), sample.value(sample_type.objects())];
    // The first of those that look alike, and their sums.
    let mut sums: Vec<(&StackSample, [Estimate; 2])> = Vec::new();
    let mut known: HashTable<(u64, usize)> = HashTable::new();
    for index in candidates(profile, sample_type, &looks, most) {
        let sample = &profile.samples[index];
        let [value, objects] = counted(sample);
        if value.is_nothing() {
            continue;
        }
        let hash = looks.hash(sample, usize::MAX);
        let is_it = |&(other, at): &(u64, usize)| {
            other == hash && looks.of(sums[at].0).eq(looks.of(sample))
        };
        match known.find(hash, is_it) {
            Some(&(_, at)) => {
                sums[at].1[0] += value;
                sums[at].1[1] += objects;
            }
            None => {
                known.insert_unique(hash, (hash, sums.len()), |&(hash, _)| hash);
                sums.push((sample, [value, objects]));
            }
        }
    }
    // Stacks with equal values stay in their order, because the sort is stable.
    sums.sort_by(|(_, [left, _]), (_, [right, _])| by_magnitude(*left, *right));
    sums.truncate(most);
    let stack = |(sample, [value, objects]): (&StackSample, [Estimate; 2])| LargestStack {
        frames: frames.stack(sample).collect(),
        value,
        objects,
    };
    sums.into_iter().map(stack).collect()
}

/// Frames at the leaf by which most stacks are told apart.
const LEAF_FRAMES: usize = 4;

/// Indices of the samples whose stacks may be among the largest. To tell the others apart would take as long as the rest of a
/// report.
fn candidates(
    profile: &Profile,
    sample_type: SampleType,
    looks: &Looks,
    most: usize,
) -> impl Iterator<Item = usize> {
    // For all stacks whose last frames have the same hash: their sum, and the largest sample.
    let mut sums = vec![0.0; profile.samples.len().next_power_of_two()];
    let mut largest = vec![0.0_f64; sums.len()];
    let mut places = Vec::with_capacity(profile.samples.len());
    let mut may_cancel = false;
    for sample in &profile.samples {
        let value = sample.value(sample_type).value;
        let place = looks.hash(sample, LEAF_FRAMES) as usize & (sums.len() - 1);
        sums[place] += value.abs();
        largest[place] = largest[place].max(value);
        places.push(place as u32);
        may_cancel |= value < 0.0;
    }
    // Samples at different places are of different stacks: so many stacks have this much or more, unless others take away from it.
    let least = match most.checked_sub(1).filter(|&last| last < largest.len() && !may_cancel) {
        Some(last) => *largest.select_nth_unstable_by(last, |a, b| b.total_cmp(a)).1,
        None => 0.0,
    };
    let is_candidate = move |&(_, place): &(usize, u32)| sums[place as usize] >= least;
    places.into_iter().enumerate().filter(is_candidate).map(|(index, _)| index)
}

/// A number for what a location shows, by location.
struct Looks {
    of_location: Vec<u32>,
    not_recorded: u32,
}

impl Looks {
    fn new(profile: &Profile, frames: &FrameTable) -> Looks {
        let mut known: HashMap<Vec<FrameAt>, u32> = HashMap::new();
        let mut number = |all: &[FrameAt]| {
            let next = known.len() as u32;
            *known.entry(all.to_vec()).or_insert(next)
        };
        let of_location =
            (0..profile.locations.len()).map(|at| number(frames.of_location(at))).collect();
        Looks { of_location, not_recorded: number(&[frames.not_recorded()]) }
    }

    /// Hashes the first `most` locations.
    fn hash(&self, sample: &StackSample, most: usize) -> u64 {
        // Each step is a permutation; the last one brings the highest bits down.
        let mix =
            |hash: u64, look: u32| (hash ^ u64::from(look)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash =
            self.of(sample).take(most).fold(1, |hash: u64, look| mix(hash.rotate_left(23), look));
        hash ^ hash >> 32
    }

    fn of<'a>(&'a self, sample: &'a StackSample) -> impl Iterator<Item = u32> + 'a {
        let not_recorded = sample.locations.is_empty().then_some(self.not_recorded);
        let recorded = sample.locations.iter().map(|&at| self.of_location[at as usize]);
        not_recorded.into_iter().chain(recorded)
    }
}
