//! The live table with several threads against maps: each operation on it must give what the map says.

use super::*;

const THREADS: u64 = 4;
const STEPS: u64 = 15_000;

/// One operation on an address that nobody else uses meanwhile; `known` is what the table should hold for it. False: refused.
fn step(file: &ProfileFile, address: u64, known: &mut Option<Sample>, draw: u64) -> bool {
    match (live::claim(file, address), *known) {
        (None, None) => {
            let sample = sample_of(draw);
            let is_in = live::insert(file, address, &sample);
            *known = is_in.then_some(sample);
            is_in
        }
        (Some(claim), Some(sample)) => {
            assert_eq!(live::sample(file, claim), sample);
            assert_eq!(live::claim(file, address), None, "claimed twice");
            if draw.is_multiple_of(4) {
                live::restore(file, claim, address);
            } else {
                live::release(file, claim);
                *known = None;
            }
            true
        }
        (claim, known) => panic!("{address:x}: {claim:?} instead of {known:?}"),
    }
}

/// Runs `THREADS` threads, each over its own part of `address_count` addresses or over all of them; returns how many insertions were
/// refused.
fn run(recording: &Recording, seed: u64, address_count: u64, are_shared: bool) -> u64 {
    let model: Vec<Mutex<Option<Sample>>> = (0..address_count).map(|_| Mutex::new(None)).collect();
    let address = |block: u64| 0x7e00_0000_0000 + block * 16;
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (model, refused) = (&model, &refused);
            scope.spawn(move || {
                let mut draw = random_numbers(seed * THREADS + thread + 100);
                for _ in 0..STEPS {
                    let own = draw(address_count / THREADS) * THREADS + thread;
                    let block = if are_shared { draw(address_count) } else { own };
                    // As an allocator: a block belongs to one thread at a time.
                    let mut known = model[block as usize].lock().unwrap();
                    let is_done = step(recording.file(), address(block), &mut known, draw(1 << 40));
                    refused.fetch_add(!is_done as u64, Relaxed);
                }
            });
        }
    });
    let known = model.iter().zip(0..).filter(|(known, _)| known.lock().unwrap().is_some());
    let expected: HashSet<u64> = known.map(|(_, block)| address(block)).collect();
    let live = recording.live();
    assert_eq!(live.len(), expected.len());
    assert_eq!(live.into_iter().collect::<HashSet<_>>(), expected);
    refused.load(Relaxed)
}

#[test]
fn threads_find_their_own_addresses() {
    for seed in 0..3 {
        let recording = Recording::new(1 << 20);
        assert_eq!(run(&recording, seed, 3000, false), 0);
        assert!(recording.file().committed(RegionKind::LiveKeys) >= live_segment(2).0, "no growth");
    }
}

#[test]
fn threads_find_latest_shared_addresses() {
    for (seed, address_count) in [(0, 64), (1, 64), (2, 3000), (3, 3000)] {
        let recording = Recording::new(1 << 20);
        assert_eq!(run(&recording, seed, address_count, true), 0);
    }
}

#[test]
fn full_table_loses_refused_only() {
    for seed in 0..2 {
        let recording = Recording::new(1 << 20);
        let slots = recording.file().header().region(RegionKind::LiveKeys).capacity.load(Relaxed);
        assert!(run(&recording, seed, slots * 2, true) > 0, "it was never full");
        assert_eq!(recording.file().committed(RegionKind::LiveKeys), slots);
    }
}
