//! Costs that count as the cost of samples, and those of them that move the interval.

use super::*;
use crate::counter;
use crate::governor::WINDOW_NS;
use crate::record::meter::Path;

const BLOCK: u64 = 0x7000_0000_0000;

fn recording() -> Recording {
    let recording = Recording::new(8 << 20);
    for number in 0..200 {
        recording.record(BLOCK + number * 64, 10, 0x1000);
    }
    for number in 0..100 {
        let address = BLOCK + number * 64;
        recording.recorder.complete(recording.recorder.claim(address).unwrap(), address);
    }
    recording
}

#[test]
fn extra_frees_and_looks_cost_nothing() {
    let recording = recording();
    let cost = |samples, frees, looks| recording.recorder.slow_cycles(samples, frees, looks);
    assert!(cost(10.0, 10.0, 0.0) > cost(10.0, 0.0, 0.0));
    assert_eq!(cost(10.0, 1e6, 0.0), cost(10.0, 10.0, 0.0));
    assert_eq!(cost(10.0, 5.0, 1e6), cost(10.0, 5.0, 15.0));
    assert_eq!(cost(0.0, 1e6, 1e6), 0.0);
}

#[test]
fn new_stacks_are_counted_apart() {
    let recording = Recording::new(8 << 20);
    for number in 0..200 {
        recording.record(BLOCK + number * 64, 10, 0x1000 + number);
    }
    assert!(recording.health(Health::SlowCycles) > 0);
    assert_eq!(recording.file().mean_cycles(Path::Sample), 0.0);
    recording.record(BLOCK, 10, 0x1000);
    (0..16).for_each(|_| recording.record(BLOCK, 10, 0x1000));
    assert!(recording.file().mean_cycles(Path::Sample) > 0.0);
}

#[test]
fn extents_cost_samples_nothing() {
    let recording = recording();
    let before = (recording.health(Health::SlowCycles), recording.file().mean_cycles(Path::Sample));
    let on_this_stack = 0u64;
    let caller = Caller {
        lookup_address: LookupAddress(0x1000),
        stack_pointer: (&raw const on_this_stack) as u64,
        frame_pointer: 0,
    };
    let range = BLOCK + (1 << 30)..BLOCK + (1 << 30) + (2 << 20);
    (0..100).for_each(|_| {
        recording.recorder.record_extent(arch::thread(), range.clone(), 0, &caller);
    });
    assert!(recording.health(Health::SlowCycles) > before.0);
    assert_eq!(recording.file().mean_cycles(Path::Sample), before.1);
}

/// As among thousands of threads, whose CPU times the kernel adds up.
#[test]
fn dear_decisions_are_rare() {
    let recording = recording();
    let (recorder, file) = (&recording.recorder, recording.file());
    let now_ns = recorder.now_ns();
    recorder.govern(now_ns + WINDOW_NS);
    // A millisecond or less.
    let began = || counter::cycles().wrapping_sub(1_000_000);
    (0..500).for_each(|_| file.count_path(Path::Decision, began()));
    recorder.govern(now_ns + 2 * WINDOW_NS);
    assert!(!recorder.is_window_over_at(now_ns + 4 * WINDOW_NS));
    assert!(recorder.is_window_over_at(now_ns + 2 * WINDOW_NS + 1_000_000_000));
}
