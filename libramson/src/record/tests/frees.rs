//! The ring of recent frees.

use super::super::frees::Entry;
use super::super::stacks::Holder;
use super::*;
use ramson_format::NO_STACK;
use ramson_reader::{Freed, Snapshot};

pub fn entry_of(number: u64) -> Entry {
    Entry {
        address: number << 4,
        size: number,
        alloc_monotonic_ns: number * 3,
        free_monotonic_ns: number * 5,
        alloc_stack: 0,
        free_stack: NO_STACK,
        alloc_tid: number as u32 ^ 7,
        free_tid: number as u32 ^ 11,
    }
}

/// Whether an entry that was read is one that `entry_of` made, and nothing else.
pub fn is_whole(freed: &Freed) -> bool {
    let entry = entry_of(freed.size);
    freed.address == entry.address
        && freed.alloc_monotonic_ns == entry.alloc_monotonic_ns
        && freed.free_monotonic_ns == entry.free_monotonic_ns
        && (freed.alloc_stack, freed.free_stack) == (0, None)
        && (freed.alloc_tid, freed.free_tid) == (entry.alloc_tid, entry.free_tid)
}

fn snapshot(recording: &Recording) -> Snapshot {
    let path = std::fs::read_dir(&recording.directory).unwrap().next().unwrap().unwrap().path();
    Snapshot::read(&std::fs::File::open(path).unwrap()).unwrap()
}

/// Frees a sample of one frame, from a caller of one frame or from nowhere.
fn free(recording: &Recording, address: u64, frame: Option<u64>) {
    let on_this_stack = 0u64;
    let stack_pointer = (&raw const on_this_stack) as u64;
    let caller = frame.map(|frame| Caller {
        lookup_address: LookupAddress(frame),
        stack_pointer,
        frame_pointer: 0,
    });
    let claim = recording.recorder.claim(address).expect("a live sample");
    recording.recorder.complete_free(arch::thread(), claim, address, caller.as_ref());
}

#[test]
fn ring_holds_latest_entries_whole() {
    for length in [1, 2, 63, 64, 65, 256] {
        let recording = Recording::in_nursery(1 << 20, length);
        recording.move_out();
        let ring = &recording.recorder.frees;
        (1..=length * 2 + 1)
            .for_each(|number| assert!(ring.push(recording.file(), &entry_of(number))));
        let seen: Vec<u64> = snapshot(&recording)
            .freed
            .iter()
            .map(|freed| {
                assert!(is_whole(freed), "{freed:?}");
                freed.size
            })
            .collect();
        assert!(seen.into_iter().eq((length + 2..=length * 2 + 1).rev()));
    }
}

#[test]
fn free_has_both_stacks() {
    let recording = Recording::new(1 << 20);
    recording.record(0x5000_0000, 77, 0x1000);
    recording.record(0x5000_1000, 78, 0x1000);
    free(&recording, 0x5000_0000, Some(0x2000));
    free(&recording, 0x5000_1000, None);
    let snapshot = snapshot(&recording);
    let frames = |stack: usize| snapshot.stacks[stack].frames[0].0;
    let told: Vec<_> = snapshot
        .freed
        .iter()
        .map(|freed| (freed.size, frames(freed.alloc_stack), freed.free_stack.map(frames)))
        .collect();
    assert_eq!(told, [(78, 0x1000, None), (77, 0x1000, Some(0x2000))]);
    assert_eq!(recording.health(Health::UnknownFreeStacks), 1);
    assert_eq!(recording.health(Health::Frees), 2);
    // The stack of a free is no stack of an allocation.
    let of_free = snapshot.freed[1].free_stack.unwrap();
    assert_eq!(snapshot.stacks[of_free].sampled_alloc_objects, 0);
    assert_eq!(recording.sum(|stack| stack.sampled_alloc_objects.load(Relaxed)), 2);
}

#[test]
fn free_stacks_take_half_the_table() {
    let recording = Recording::new(1 << 20);
    let file = recording.file();
    let stacks = &recording.profile().stacks;
    let intern = |frame: u64, holder| {
        stacks.intern(file, 0, [LookupAddress(frame)].into_iter(), 0, holder, 1)
    };
    let capacity = file.capacity(RegionKind::Stacks);
    let added = (1..).take_while(|&frame| intern(frame, Holder::Free).is_some()).count() as u64;
    assert_eq!(added + ramson_format::KINDS.len() as u64, capacity / 2);
    // Known stacks still have their number, and allocations get new ones.
    assert!(intern(1, Holder::Free).is_some());
    assert!(intern(added + 1, Holder::Allocation).is_some());
    assert!(intern(added + 1, Holder::Free).is_some());
    assert!(intern(added + 2, Holder::Free).is_none());
}
