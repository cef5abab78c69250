//! Extents against a plain model: what unmappings leave of them, alone and with several threads.

use super::*;
use core::ops::Range;
use ramson_format::{EXTENT_LEAST_BYTES, LookupAddress};
use ramson_reader::Snapshot;
use std::fs::File;

const MIB: u64 = EXTENT_LEAST_BYTES;
/// Address at which Linux maps first, and then downwards.
const TOP: u64 = 0x7fff_0000_0000;

fn mib(range: Range<u64>) -> Range<u64> {
    TOP + range.start * MIB..TOP + range.end * MIB
}

impl Recording {
    pub fn map(&self, range: &Range<u64>) {
        let on_this_stack = 0u64;
        let stack_pointer = (&raw const on_this_stack) as u64;
        let caller =
            Caller { lookup_address: LookupAddress(0x1000), stack_pointer, frame_pointer: 0 };
        self.recorder.record_extent(arch::thread(), range.clone(), 0, &caller);
    }

    pub fn unmap(&self, range: &Range<u64>) {
        let taken = self.recorder.take(range);
        self.recorder.complete_unmapping(&taken, range);
    }

    fn snapshot_of_extents(&self) -> Snapshot {
        let path = std::fs::read_dir(&self.directory).unwrap().next().unwrap().unwrap().path();
        let snapshot = Snapshot::read(&File::open(path).unwrap()).unwrap();
        assert_eq!(snapshot.defects, []);
        snapshot
    }

    fn extents(&self) -> Vec<Range<u64>> {
        let extents = self.snapshot_of_extents().extents;
        extents.iter().map(|extent| extent.start..extent.start + extent.bytes).collect()
    }

    /// Neither the filter nor the count of extents knows of any.
    fn assert_all_is_forgotten(&self) {
        assert_eq!(self.extents(), []);
        assert!(PAGE_FILTER.0.iter().all(|count| count.load(Relaxed) == 0));
        assert_eq!(self.recorder.extents.count.load(Relaxed), 0);
    }
}

#[test]
fn unmapping_trims_or_removes_extent() {
    for (unmapped, left, objects) in [
        (0..1, Some(1..8), 0),
        (7..8, Some(0..7), 0),
        (0..8, None, 1),
        // Memory around the extent is none of the recorder's business.
        (0..9, None, 1),
        (7..9, Some(0..8), 0),
        (4..5, Some(0..8), 0),
        (8..9, Some(0..8), 0),
    ] {
        let recording = Recording::new(1 << 20);
        recording.map(&mib(0..8));
        recording.unmap(&mib(unmapped.clone()));
        let left = Vec::from_iter(left.map(mib));
        assert_eq!(recording.extents(), left, "{unmapped:?}");
        let live: u64 = left.iter().map(|range| range.end - range.start).sum();
        assert_eq!(recording.sum(|stack| stack.sampled_freed_bytes.load(Relaxed)), 8 * MIB - live);
        assert_eq!(recording.sum(|stack| stack.sampled_freed_objects.load(Relaxed)), objects);
        left.iter().for_each(|range| recording.unmap(range));
        recording.assert_all_is_forgotten();
    }
}

#[test]
fn unmapping_trims_two_extents() {
    let recording = Recording::new(1 << 20);
    recording.map(&mib(0..4));
    recording.map(&mib(4..8));
    recording.unmap(&mib(0..8));
    recording.assert_all_is_forgotten();
    recording.map(&mib(0..4));
    recording.map(&mib(4..8));
    recording.unmap(&mib(0..6));
    // The first page of the second one may be mapped by now: the reader asks the kernel.
    assert_eq!(recording.extents(), [mib(4..8)]);
}

/// As if it were a hole: only one of them is remembered by its end.
#[test]
fn colliding_ends_stay_distinct() {
    let recording = Recording::new(1 << 20);
    let (first, second) = (mib(0..8), mib(4096..4104));
    recording.map(&first);
    recording.map(&second);
    recording.unmap(&mib(7..8));
    assert_eq!(recording.extents(), [first.clone(), second]);
    recording.unmap(&mib(4103..4104));
    assert_eq!(recording.extents(), [first, mib(4096..4103)]);
}

#[test]
fn an_unmapping_that_fails_changes_nothing() {
    let recording = Recording::new(1 << 20);
    recording.map(&mib(0..8));
    let before = recording.snapshot_of_extents();
    for range in [mib(0..1), mib(7..8), mib(0..8), mib(2..3)] {
        let taken = recording.recorder.take(&range);
        recording.recorder.restore_extents(&taken);
        let after = recording.snapshot_of_extents();
        assert_eq!((after.extents, after.stacks), (before.extents.clone(), before.stacks.clone()));
    }
    recording.unmap(&mib(0..8));
    recording.assert_all_is_forgotten();
}

#[test]
fn heap_block_replaces_extent() {
    let recording = Recording::new(1 << 20);
    recording.map(&mib(0..8));
    recording.record(TOP, 100, 0x2000);
    assert_eq!(recording.health(Health::Healed), 1);
    assert_eq!(recording.extents(), []);
    // Nor is a block an extent.
    recording.unmap(&mib(0..8));
    forget(recording.recorder, TOP);
    recording.assert_all_is_forgotten();
}

#[test]
fn extents_leave_table_to_heap() {
    let recording = Recording::new(1 << 20);
    let slots = recording.file().capacity(RegionKind::LiveKeys);
    for number in 0..slots {
        recording.map(&mib(number * 2..number * 2 + 1));
    }
    let recorded = recording.extents().len() as u64;
    assert!((slots / 8..=slots / 4).contains(&recorded), "{recorded} of {slots}");
    assert_eq!(recording.health(Health::DroppedExtents), slots - recorded);
    for number in 0..slots {
        recording.unmap(&mib(number * 2..number * 2 + 1));
    }
    recording.assert_all_is_forgotten();
}

const THREADS: u64 = 4;
const STEPS: u64 = 4_000;

/// Maps and unmaps in an address space of its own, as the kernel would let it. Returns what is
/// left.
fn map_and_unmap(recording: &Recording, thread: u64) -> Option<Range<u64>> {
    let mut draw = random_numbers(thread + 60);
    let mut mapped: Option<Range<u64>> = None;
    for _ in 0..STEPS {
        let Some(range) = mapped.take() else {
            let start = thread * 1000 + draw(8);
            mapped = Some(start..start + 1 + draw(8));
            mapped.iter().for_each(|range| recording.map(&mib(range.clone())));
            continue;
        };
        let at = range.start + draw(range.end - range.start + 1);
        let (gone, rest) = match draw(2) {
            0 => (range.start..at, at..range.end),
            _ => (at..range.end, range.start..at),
        };
        if !gone.is_empty() {
            recording.unmap(&mib(gone));
        }
        mapped = Some(rest).filter(|rest| !rest.is_empty());
    }
    mapped
}

#[test]
fn threads_unmap_their_own_only() {
    let recording = Recording::new(16 * MIB);
    let mut known: Vec<_> = std::thread::scope(|scope| {
        let work = |thread| {
            let recording = &recording;
            scope.spawn(move || map_and_unmap(recording, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    known.sort_by_key(|range| range.start);
    let known: Vec<_> = known.into_iter().map(mib).collect();
    assert_eq!(recording.extents(), known);
    let freed = recording.sum(|stack| stack.sampled_freed_bytes.load(Relaxed));
    let live: u64 = known.iter().map(|range| range.end - range.start).sum();
    assert_eq!(recording.sum(|stack| stack.sampled_alloc_bytes.load(Relaxed)) - freed, live);
    known.iter().for_each(|range| recording.unmap(range));
    recording.assert_all_is_forgotten();
    assert_eq!(recording.health(Health::DroppedExtents), 0);
}
