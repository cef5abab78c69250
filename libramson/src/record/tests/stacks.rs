//! The stack table: one number for one stack.

use super::super::stacks::Holder;
use super::*;
use std::sync::Barrier;

/// Frames of stack `number`; several stacks share beginnings and lengths.
fn frames_of(number: u64) -> Vec<u64> {
    (0..number % 40 + 1).map(|frame| 0x40_0000 + (frame * number / 7) * 3 + number % 3).collect()
}

pub fn intern(recording: &Recording, epoch: u32, frames: &[u64]) -> Option<u32> {
    let frames: Vec<_> = frames.iter().copied().map(LookupAddress).collect();
    let stacks = &recording.profile().stacks;
    stacks.intern(recording.file(), epoch, frames.iter().copied(), 0, Holder::Allocation, 1)
}

pub fn frames_in(recording: &Recording, number: u32) -> Vec<u64> {
    let entry = recording.profile().stack(number);
    assert_eq!(entry.commit.load(Acquire), COMMITTED);
    let first = entry.first_frame.load(Relaxed);
    let frame = |index| {
        let cell: &AtomicU64 = recording.file().entry(RegionKind::Frames, index).unwrap();
        cell.load(Relaxed)
    };
    (first..first + entry.depth.load(Relaxed) as u64).map(frame).collect()
}

#[test]
fn stack_has_one_number() {
    let recording = Recording::new(4 << 20);
    let mut numbers = HashMap::new();
    for round in 0..3 {
        for stack in 0..2000 {
            for epoch in 0..2 {
                let frames = frames_of(stack);
                let number = intern(&recording, epoch, &frames).unwrap();
                assert!(number >= 2, "an overflow stack");
                assert_eq!(frames_in(&recording, number), frames);
                let known = numbers.entry((epoch, frames)).or_insert(number);
                assert_eq!(*known, number, "round {round}");
            }
        }
    }
    let distinct: HashSet<u32> = numbers.values().copied().collect();
    assert_eq!(distinct.len(), numbers.len());
    assert_eq!(recording.file().header().stack_count.load(Relaxed) as usize, numbers.len() + 2);
}

#[test]
fn concurrent_stack_entries_can_merge() {
    const THREADS: usize = 4;
    let recording = Recording::new(8 << 20);
    let barrier = Barrier::new(THREADS);
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for stack in 0..1500 {
                    if stack % 50 == 0 {
                        barrier.wait();
                    }
                    let number = intern(&recording, 0, &frames_of(stack)).unwrap();
                    seen.lock().unwrap().push((stack, number));
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    for &(stack, number) in &seen {
        assert_eq!(frames_in(&recording, number), frames_of(stack));
    }
    let used: HashSet<u32> = seen.iter().map(|&(_, number)| number).collect();
    let distinct: HashSet<Vec<u64>> = (0..1500).map(frames_of).collect();
    assert!(used.len() >= distinct.len() && used.len() <= THREADS * distinct.len());
    // From now on each has one number, and no further entry is made.
    let count = recording.file().header().stack_count.load(Relaxed);
    for stack in 0..1500 {
        let number = intern(&recording, 0, &frames_of(stack)).unwrap();
        assert!(used.contains(&number));
    }
    assert_eq!(recording.file().header().stack_count.load(Relaxed), count);
}

#[test]
fn full_stack_table_knows_old_stacks() {
    let recording = Recording::new(1 << 20);
    let mut numbers = Vec::new();
    let refused = (0..100_000u64).find(|&stack| {
        let number = intern(&recording, 0, &[stack + 5000, 7]);
        numbers.extend(number);
        number.is_none()
    });
    assert!(refused.is_some());
    let capacity = recording.file().header().region(RegionKind::Stacks).capacity.load(Relaxed);
    assert_eq!(numbers.len() as u64, capacity - 2);
    for (stack, number) in numbers.iter().enumerate() {
        assert_eq!(intern(&recording, 0, &[stack as u64 + 5000, 7]), Some(*number));
    }
    // A sample without a stack goes to the overflow stack, number 0, and is counted.
    recording.record(0x1234_0000, 5, 0x77);
    assert_eq!(recording.health(Health::DroppedStacks), 1);
    let overflow = recording.profile().stack(0);
    assert_eq!(overflow.sampled_alloc_bytes.load(Relaxed), 5);
    let beyond = recording.profile().stack(u32::MAX);
    assert!(core::ptr::eq(overflow, beyond));
}
