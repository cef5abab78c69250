//! Allocators inside objects, as the profile tells them: where they are, which of their functions have hooks, and counts of each.

use super::file::ProfileFile;
use crate::families::{self, Facts};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use ramson_format::{
    Allocator, BEGUN, COMMITTED, MEMBER_STATES, MOST_ALLOCATORS, RegionKind, allocator_check,
    family_of,
};

/// Counts of each allocator in one process.
pub struct Allocators {
    counts: [[AtomicU64; 2]; MOST_ALLOCATORS],
    /// Allocators of which the profile has the facts.
    told: AtomicU32,
}

const SAMPLES: usize = 0;
const MISSED_FREES: usize = 1;

impl Allocators {
    /// Whether there are allocators of which the profile has no facts.
    #[inline]
    pub fn has_untold(&self) -> bool {
        self.told.load(Relaxed) != families::count()
    }

    /// The profile is another one, which has none yet.
    pub fn are_untold(&self) {
        self.told.store(0, Relaxed);
    }

    /// Writes the facts of allocators that the profile has not.
    #[cold]
    pub fn tell(&self, file: &ProfileFile) {
        self.told.store(families::count(), Relaxed);
        for ((family, facts), number) in families::families().zip(families::all()).zip(0..) {
            add(file, number as u64, facts, &family.states(facts));
            self.publish(file, number);
        }
    }

    /// Counts a sample under this live key of an allocator inside an object; whether its address had another one of the same family, whose
    /// free was missed.
    #[cold]
    pub fn count(&self, file: &ProfileFile, key: u64, is_missed: bool) {
        let Some(number) = (family_of(key) as usize).checked_sub(1) else { return };
        let Some(counts) = self.counts.get(number) else { return };
        counts[SAMPLES].fetch_add(1, Relaxed);
        counts[MISSED_FREES].fetch_add(is_missed as u64, Relaxed);
        self.publish(file, number);
    }

    fn publish(&self, file: &ProfileFile, number: usize) {
        if let Some(counts) = self.counts.get(number)
            && let Some(entry) = file.entry::<Allocator>(RegionKind::Allocators, number as u64)
        {
            entry.samples.fetch_max(counts[SAMPLES].load(Relaxed), Relaxed);
            entry.missed_frees.fetch_max(counts[MISSED_FREES].load(Relaxed), Relaxed);
        }
    }
}

fn add(file: &ProfileFile, number: u64, facts: &Facts, states: &[u8; MEMBER_STATES]) {
    if !file.grow_to(RegionKind::Allocators, number + 1) {
        return;
    }
    let Some(entry) = file.entry::<Allocator>(RegionKind::Allocators, number) else { return };
    if entry.commit.compare_exchange(0, BEGUN, Relaxed, Relaxed).is_err() {
        return;
    }
    let path = facts.path();
    let path_offset = file.add_string(path.len(), path.iter().copied()).unwrap_or(0);
    let path_word = path_offset as u64 | (path.len() as u64) << 32;
    entry.kind.store(facts.kind, Relaxed);
    entry.object.store(facts.object, Relaxed);
    entry.path_offset.store(path_offset, Relaxed);
    entry.path_bytes.store(path.len() as u32, Relaxed);
    entry.states.iter().zip(states).for_each(|(to, &state)| to.store(state, Relaxed));
    let check = allocator_check(facts.kind, facts.object, path_word, states);
    entry.check.store(check, Relaxed);
    entry.commit.store(COMMITTED, Release);
}
