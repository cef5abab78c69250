//! The move from the nursery to the file, while threads record.

use super::*;
use ramson_reader::Snapshot;

impl Recording {
    fn nursery_keys(&self) -> Vec<u64> {
        let file = &self.recorder.nursery.profile().file;
        let slots = 0..file.committed(RegionKind::LiveKeys);
        let key = |slot| file.entry::<AtomicU64>(RegionKind::LiveKeys, slot).unwrap().load(Relaxed);
        slots.map(key).filter(|&key| key != 0).collect()
    }
}

#[test]
fn nursery_records_are_moved_to_file() {
    let recording = Recording::in_nursery(1 << 20, 0);
    let recorder = recording.recorder;
    for block in 1..=40u64 {
        recording.record(0x5000_0000 + block * 4096, block, 0x1000 + block % 5);
    }
    for block in 1..=10u64 {
        forget(recorder, 0x5000_0000 + block * 4096);
    }
    let before: Vec<_> = (11..=40u64)
        .map(|block| {
            let address = 0x5000_0000 + block * 4096;
            let claim = recorder.claim(address).unwrap();
            let sample = recorder.sample(recorder.profile_of(claim), claim);
            recorder.restore(claim, address);
            (address, sample)
        })
        .collect();
    recording.move_out();
    assert_eq!(recording.nursery_keys(), []);
    assert_eq!(recording.live().len(), 30);
    for (address, sample) in before {
        let claim = recorder.claim(address).expect("lost");
        let moved = recorder.sample(recorder.profile_of(claim), claim);
        let frame = 0x1000 + sample.size % 5;
        assert_eq!(stacks::frames_in(&recording, moved.stack), [frame]);
        assert_eq!(moved, Sample { stack: moved.stack, ..sample });
        recorder.complete(claim, address);
    }
    assert_eq!((recording.health(Health::Samples), recording.health(Health::Frees)), (40, 40));
    assert_eq!(recording.sum(|stack| stack.sampled_alloc_objects.load(Relaxed)), 40);
    assert_eq!(recording.sum(|stack| stack.sampled_alloc_bytes.load(Relaxed)), 820);
    assert_eq!(recording.sum(|stack| stack.sampled_freed_bytes.load(Relaxed)), 820);
    let frees = recording.sum(|stack| stack.lifetimes.iter().map(|n| n.load(Relaxed) as u64).sum());
    assert_eq!(frees, 40);
    assert_eq!(recording.health(Health::Healed), 0);
}

#[test]
fn concurrent_move_loses_nothing() {
    const THREADS: u64 = 4;
    const STEPS: u64 = 300;
    for round in 0..60 {
        let recording = Recording::in_nursery(1 << 20, 0);
        // Few addresses, so that one that was just freed is soon used again.
        let free = Mutex::new((0..24u64).map(|block| 0x7f12_0000_0000 + block * 144).collect());
        let taken = Mutex::new(Vec::<u64>::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (recording, free, taken): (_, &Mutex<Vec<u64>>, _) =
                    (&recording, &free, &taken);
                scope.spawn(move || {
                    let mut draw = random_numbers(round * 10 + thread + 1);
                    for step in 0..STEPS {
                        if (thread, step) == (0, STEPS / 2) {
                            recording.move_out();
                        }
                        if draw(2) == 0 {
                            let Some(address) = free.lock().unwrap().pop() else { continue };
                            recording.record(address, step + 1, 0x1000 + draw(50));
                            taken.lock().unwrap().push(address);
                            continue;
                        }
                        let address = {
                            let mut taken = taken.lock().unwrap();
                            let length = taken.len() as u64;
                            (length > 0).then(|| taken.swap_remove(draw(length.max(1)) as usize))
                        };
                        let Some(address) = address else { continue };
                        let claim = recording.recorder.claim(address).expect("lost");
                        if draw(4) == 0 {
                            recording.recorder.restore(claim, address);
                            forget(recording.recorder, address);
                        } else {
                            recording.recorder.complete(claim, address);
                        }
                        free.lock().unwrap().push(address);
                    }
                });
            }
        });
        assert_eq!(recording.nursery_keys(), [], "round {round}");
        let expected: HashSet<u64> = taken.into_inner().unwrap().into_iter().collect();
        let live = recording.live();
        assert_eq!(live.len(), expected.len(), "round {round}");
        assert_eq!(live.into_iter().collect::<HashSet<_>>(), expected);
        let samples = recording.health(Health::Samples);
        assert_eq!(recording.health(Health::Frees), samples - expected.len() as u64);
        assert_eq!(recording.sum(|stack| stack.sampled_alloc_objects.load(Relaxed)), samples);
        let freed = recording.sum(|stack| stack.sampled_freed_objects.load(Relaxed));
        assert_eq!(freed, recording.health(Health::Frees));
        for nothing in [Health::Healed, Health::DroppedLive, Health::DroppedWalks] {
            assert_eq!(recording.health(nothing), 0, "{nothing:?} in round {round}");
        }
    }
}

#[test]
fn realloc_during_move_is_restored() {
    let recording = Recording::in_nursery(1 << 20, 0);
    let recorder = recording.recorder;
    let address = 0x7777_0000_1230;
    recording.record(address, 4321, 0x1000);
    let claim = recorder.claim(address).unwrap();
    recording.move_out();
    assert_eq!(recorder.claim(address), None);
    recorder.restore(claim, address);
    assert_eq!((recording.nursery_keys(), recording.live()), (vec![], vec![address]));
    forget(recorder, address);
    assert_eq!((recording.health(Health::Samples), recording.health(Health::Frees)), (1, 1));
}

#[test]
fn extent_moves_with_both_ends() {
    const MIB: u64 = 1 << 20;
    let recording = Recording::in_nursery(1 << 20, 0);
    let recorder = recording.recorder;
    let start = 0x7f00_0000_0000;
    let on_this_stack = 0u64;
    let caller = Caller {
        lookup_address: LookupAddress(0x1000),
        stack_pointer: (&raw const on_this_stack) as u64,
        frame_pointer: 0,
    };
    recorder.record_extent(arch::thread(), start..start + 8 * MIB, 0, &caller);
    let range = start + 6 * MIB..start + 8 * MIB;
    let taken = recorder.take(&range);
    recording.move_out();
    recorder.complete_unmapping(&taken, &range);
    assert_eq!((recording.nursery_keys(), recording.live()), (vec![], vec![start]));
    let range = start + 5 * MIB..start + 6 * MIB;
    let taken = recorder.take(&range);
    recorder.complete_unmapping(&taken, &range);
    let claim = recorder.claim(start).unwrap();
    assert_eq!(recorder.sample(recorder.profile_of(claim), claim).size, 5 * MIB);
}

#[test]
fn recording_moves_when_large_or_old() {
    let recording = Recording::in_nursery(1 << 20, 0);
    let recorder = recording.recorder;
    for block in 1..=63u64 {
        recording.record(0x5000_0000 + block * 4096, 100, 0x1000);
        assert!(!recorder.is_to_move(), "{block}");
    }
    recording.record(0x6000_0000, 100, 0x1000);
    assert!(recorder.is_to_move());
    drop(recording);
    let recording = Recording::in_nursery(1 << 20, 0);
    recording.record(0x5000_0000, 32 << 20, 0x1000);
    assert!(recording.recorder.is_to_move());
    recording.move_out();
    assert!(!recording.recorder.is_to_move());
    drop(recording);
    let recording = Recording::in_nursery(1 << 20, 0);
    recording.record(0x5000_0000, 100, 0x1000);
    let started = &recording.file().header().start_monotonic_ns;
    started.fetch_sub(1_000_000_000, Relaxed);
    assert!(recording.recorder.is_to_move());
}

#[test]
fn file_begins_with_nursery() {
    let recording = Recording::in_nursery(1 << 20, 0);
    let recorder = recording.recorder;
    recording.record(0x5000_0000, 100, 0x1000);
    recorder.record_failure(
        arch::thread(),
        1 << 40,
        &Caller {
            lookup_address: LookupAddress(0x2000),
            stack_pointer: (&raw const recording) as u64,
            frame_pointer: 0,
        },
    );
    let nursery = recording.file().header();
    let epoch = &nursery.epoch;
    let interval = &nursery.interval_bytes;
    epoch.store(7, Relaxed);
    interval.store(12345, Relaxed);
    let of = |header: &ramson_format::Header| {
        let words = [&header.start_monotonic_ns, &header.start_realtime_ns, &header.interval_bytes];
        words.map(|word| word.load(Relaxed))
    };
    let before = of(nursery);
    recording.move_out();
    let moved = recording.file().header();
    assert_eq!((of(moved), moved.epoch.load(Relaxed)), (before, 7));
    assert_eq!(moved.flags.load(Relaxed) & ramson_format::flags::PRIVATE, 0);
    // Readers that look through this process's memory find one profile.
    assert_eq!(nursery.magic.load(Relaxed), 0);
    let directory = std::fs::read_dir(&recording.directory).unwrap();
    let path = directory.map(|entry| entry.unwrap().path()).next().unwrap();
    let snapshot = Snapshot::read(&std::fs::File::open(path).unwrap()).unwrap();
    assert_eq!(snapshot.defects, []);
    assert_eq!(snapshot.live.len(), 1);
    let failure = snapshot.header.last_failure.expect("it was moved, too");
    assert_eq!((snapshot.header.failures, failure.size), (1, 1 << 40));
    assert_eq!(snapshot.stacks[failure.stack].frames, [ramson_reader::LookupAddress(0x2000)]);
}
