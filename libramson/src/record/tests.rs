//! The recorder's tables against plain models, alone and with several threads.

mod bounds;
mod cost;
mod extents;
mod frees;
#[cfg(loom)]
mod models;
mod nursery;
mod property;
mod sanitized;
mod stacks;

use super::file::ProfileFile;
use super::live::{self, Sample};
use super::*;
use crate::page_filter::{FILTER_PAGES, PAGE_FILTER};
use crate::{arch, sampler, text::Text};
use ramson_format::{COMMITTED, KEY_RESERVED, LookupAddress, RegionKind, live_check, live_segment};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use tempfile::TempDir;

/// The page filter is one per process: tests that use it take turns.
static PAGE_FILTER_USER: Mutex<()> = Mutex::new(());

/// A recorder with a file of its own, which goes with it; its memory stays.
struct Recording {
    recorder: &'static Recorder,
    config: Config,
    directory: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Recording {
    fn new(file_bytes: u64) -> Self {
        let recording = Self::in_nursery(file_bytes, 256);
        recording.move_out();
        assert_eq!(std::fs::read_dir(&recording.directory).unwrap().count(), 1);
        recording
    }

    /// One that has not moved to its file yet.
    fn in_nursery(file_bytes: u64, recent_frees: u64) -> Self {
        let turn = PAGE_FILTER_USER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        PAGE_FILTER.0.iter().for_each(|count| count.store(0, Relaxed));
        let directory = tempfile::tempdir().unwrap();
        let mut text = Text::new();
        text.push(directory.path().to_str().unwrap().as_bytes());
        let config =
            Config { directory: Some(text), file_bytes, recent_frees, ..Config::default() };
        // SAFETY: integers; all zero is the initial state of both.
        let (recorder, memory) = unsafe {
            let memory = Box::<NurseryMemory>::new_zeroed().assume_init();
            (Box::<Recorder>::new_zeroed().assume_init(), Box::leak(memory))
        };
        let recorder: &'static Recorder = Box::leak(recorder);
        recorder.begin(memory, &config, std::process::id(), true);
        Self { recorder, config, directory, _turn: turn }
    }

    fn move_out(&self) {
        assert!(self.recorder.begins_to_move());
        assert!(self.recorder.move_out(&self.config, true, self.config.file_bytes).is_some());
    }

    fn profile(&self) -> &'static Profile {
        self.recorder.profile()
    }

    fn file(&self) -> &'static ProfileFile {
        &self.profile().file
    }

    fn health(&self, counter: Health) -> u64 {
        self.file().header().health[counter as usize].load(Relaxed)
    }

    /// Records an allocation from a stack of one frame.
    fn record(&self, address: u64, size: u64, frame: u64) {
        let on_this_stack = 0u64;
        let caller = Caller {
            lookup_address: LookupAddress(frame),
            stack_pointer: (&raw const on_this_stack) as u64,
            frame_pointer: 0,
        };
        self.recorder.record(arch::thread(), address, size, 2.0, &caller);
    }

    /// Slots that hold an address, which must be whole records.
    fn live(&self) -> Vec<u64> {
        let committed = self.file().header().region(RegionKind::LiveKeys).committed.load(Relaxed);
        let key = |slot| self.file().entry::<AtomicU64>(RegionKind::LiveKeys, slot).unwrap();
        let keys = (0..committed).map(|slot| (slot, key(slot).load(Acquire)));
        let live = keys.filter(|&(_, key)| key != 0).inspect(|&(slot, key)| {
            assert_ne!(key, KEY_RESERVED, "slot {slot} was never given back");
            let entry: &ramson_format::LiveSample =
                self.file().entry(RegionKind::LiveSamples, slot).unwrap();
            let check = live_check(&[
                key,
                entry.size.load(Relaxed),
                entry.inverse_probability.load(Relaxed),
                entry.monotonic_ns.load(Relaxed),
                entry.stack.load(Relaxed) as u64 | (entry.tid.load(Relaxed) as u64) << 32,
                entry.flags.load(Relaxed) as u64 | (entry.number.load(Relaxed) as u64) << 32,
            ]);
            assert_eq!(check, entry.check.load(Relaxed));
        });
        live.map(|(_, key)| key).collect()
    }

    /// Sums of a counter over all stacks.
    fn sum(&self, counter: impl Fn(&Stack) -> u64) -> u64 {
        let count = self.file().header().stack_count.load(Relaxed);
        (0..count).map(|stack| counter(self.profile().stack(stack))).sum()
    }
}

fn random_numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = sampler::seed(seed);
    move |below| {
        random = sampler::next_random(random);
        (random >> 11) % below
    }
}

fn sample_of(number: u64) -> Sample {
    Sample {
        size: number,
        inverse_probability: number as f64 + 0.5,
        monotonic_ns: number * 3,
        stack: number as u32 ^ 5,
        tid: number as u32 ^ 9,
        flags: 0,
        number: number as u32,
    }
}

/// Does what `free` does before the real one.
fn forget(recorder: &Recorder, address: u64) {
    if let Some(claim) = recorder.claim(address) {
        recorder.complete(claim, address);
    }
}

#[test]
fn live_table_agrees_with_map() {
    let recording = Recording::new(1 << 20);
    let file = recording.file();
    let mut draw = random_numbers(1);
    let mut model: HashMap<u64, Sample> = HashMap::new();
    let slots = file.header().region(RegionKind::LiveKeys).capacity.load(Relaxed);
    assert!(slots >= live_segment(3).0);
    let mut refused = 0;
    for step in 0..120_000u64 {
        // Grows to more than there is room for, then shrinks, then grows again.
        let wants_more = draw(100) < if step / 20_000 % 2 == 0 { 70 } else { 40 };
        let address = 0x5500_0000_0000 + draw(2 * slots) * 16;
        match live::claim(file, address) {
            None => {
                assert!(!model.contains_key(&address), "{address:x} was lost");
                if wants_more {
                    let sample = sample_of(step);
                    let is_in = live::insert(file, address, &sample);
                    refused += !is_in as u32;
                    if is_in {
                        model.insert(address, sample);
                    }
                }
            }
            Some(claim) => {
                assert_eq!(live::sample(file, claim), model[&address]);
                assert_eq!(live::claim(file, address), None, "claimed twice");
                if wants_more {
                    live::restore(file, claim, address);
                } else {
                    live::release(file, claim);
                    model.remove(&address);
                }
            }
        }
    }
    assert!(refused > 0, "it was never full");
    let live = recording.live();
    assert_eq!(live.len(), model.len());
    assert_eq!(live.into_iter().collect::<HashSet<_>>(), model.keys().copied().collect());
    // Windows fill up before all slots do, but not long before.
    assert!(model.len() as u64 > slots / 3, "{} of {slots}", model.len());
}

#[test]
fn impossible_addresses_are_not_found() {
    let recording = Recording::new(1 << 20);
    for address in [0, KEY_RESERVED] {
        assert_eq!(live::claim(recording.file(), address), None);
    }
}

#[test]
fn mutual_frees_lose_nothing() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 15_000;
    let recording = Recording::new(8 << 20);
    // Addresses that are free now: whoever takes one has it alone, as from an allocator. More are taken than given back.
    let heap =
        Mutex::new((0..3000).map(|block| 0x7f12_0000_0000 + block * 144).collect::<Vec<_>>());
    let in_flight = Mutex::new(Vec::<u64>::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (recording, heap, in_flight) = (&recording, &heap, &in_flight);
            scope.spawn(move || {
                let mut draw = random_numbers(thread + 10);
                let take = |from: &Mutex<Vec<u64>>, at: u64| {
                    let mut from = from.lock().unwrap();
                    let length = from.len() as u64;
                    (length > 0).then(|| from.swap_remove((at % length) as usize))
                };
                for round in 0..ROUNDS {
                    if draw(9) < 5 {
                        let Some(address) = take(heap, draw(1 << 20)) else { continue };
                        recording.record(address, round + 1, 0x1000 + draw(50));
                        in_flight.lock().unwrap().push(address);
                    } else if let Some(address) = take(in_flight, draw(1 << 20)) {
                        let claim = recording.recorder.claim(address).expect("lost");
                        if draw(4) == 0 {
                            recording.recorder.restore(claim, address);
                            forget(recording.recorder, address);
                        } else {
                            recording.recorder.complete(claim, address);
                        }
                        heap.lock().unwrap().push(address);
                    }
                }
            });
        }
    });
    let expected: HashSet<u64> = in_flight.into_inner().unwrap().into_iter().collect();
    let live = recording.live();
    assert_eq!(live.len(), expected.len());
    assert_eq!(live.into_iter().collect::<HashSet<_>>(), expected);
    let samples = recording.health(Health::Samples);
    assert!(samples > ROUNDS);
    assert_eq!(recording.health(Health::Frees), samples - expected.len() as u64);
    for nothing in
        [Health::Healed, Health::DroppedLive, Health::DroppedStacks, Health::DroppedWalks]
    {
        assert_eq!(recording.health(nothing), 0, "{nothing:?}");
    }
    assert_eq!(recording.sum(|stack| stack.sampled_alloc_objects.load(Relaxed)), samples);
    let one_each = |cell: &AtomicU64| f64::from_bits(cell.load(Relaxed)) as u64;
    let bytes = recording.sum(|stack| stack.sampled_alloc_bytes.load(Relaxed));
    assert_eq!(recording.sum(|stack| one_each(&stack.unsampled_alloc_objects)), samples);
    assert_eq!(recording.sum(|stack| one_each(&stack.unsampled_alloc_space)), bytes);
    let frees = recording.sum(|stack| stack.lifetimes.iter().map(|n| n.load(Relaxed) as u64).sum());
    assert_eq!(frees, recording.health(Health::Frees));
    // Freed behind our back, then used again: the old record goes when the address is seen.
    let healed = *expected.iter().next().unwrap();
    recording.record(healed, 7, 0x1000);
    assert_eq!(recording.health(Health::Healed), 1);
    assert_eq!(recording.live().len(), expected.len());
}

/// Lets two threads go on at the same moment: closer than a lock that wakes one after the other.
struct Gate(AtomicU64);

impl Gate {
    fn pass(&self, round: u64) {
        self.0.fetch_add(1, AcqRel);
        while self.0.load(Acquire) < 2 * round {
            std::thread::yield_now();
        }
    }
}

#[test]
fn one_of_two_frees_wins() {
    const ROUNDS: u64 = 60;
    const BLOCKS: u64 = 1000;
    let recording = Recording::new(1 << 20);
    let gate = Gate(AtomicU64::new(0));
    let won = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (recording, gate, won) = (&recording, &gate, &won);
            scope.spawn(move || {
                let blocks = || (0..BLOCKS).map(|block| 0x7000_0000_0000 + block * 64);
                for round in 0..ROUNDS {
                    if thread == 0 {
                        blocks().for_each(|address| recording.record(address, 1, 0x1000));
                    }
                    gate.pass(2 * round + 1);
                    for address in blocks() {
                        if let Some(claim) = recording.recorder.claim(address) {
                            won.fetch_add(1, Relaxed);
                            recording.recorder.complete(claim, address);
                        }
                    }
                    gate.pass(2 * round + 2);
                }
            });
        }
    });
    assert_eq!(won.load(Relaxed), ROUNDS * BLOCKS);
    assert!(recording.live().is_empty());
}

#[test]
fn full_window_slots_stay_distinct() {
    let recording = Recording::new(1 << 20);
    let file = recording.file();
    let gate = Gate(AtomicU64::new(0));
    // Addresses of one window of the first segment, more than it has slots.
    let window = |address: &u64| ramson_format::mix(0, address >> 3) & 511 & !7 == 64;
    let all: Vec<u64> = (0x6100_0000_0000..).step_by(16).filter(window).take(24).collect();
    for round in 0..4000 {
        std::thread::scope(|scope| {
            for half in all.chunks(12) {
                let gate = &gate;
                scope.spawn(move || {
                    gate.pass(round + 1);
                    for &address in half {
                        assert!(live::insert(file, address, &sample_of(address)));
                    }
                });
            }
        });
        for &address in &all {
            let claim = live::claim(file, address).expect("overwritten");
            assert_eq!(live::sample(file, claim), sample_of(address));
            live::release(file, claim);
        }
    }
}

#[test]
fn a_failed_realloc_keeps_the_record() {
    let recording = Recording::new(1 << 20);
    let recorder = recording.recorder;
    let address = 0x7777_0000_1230;
    recording.record(address, 4321, 0x1000);
    let claim = recorder.claim(address).unwrap();
    let before = recorder.sample(recorder.profile(), claim);
    // While the real realloc runs, nobody else has the block.
    assert_eq!(recorder.claim(address), None);
    forget(recorder, address);
    recorder.restore(claim, address);
    assert_eq!(recording.live(), [address]);
    let again = recorder.claim(address).unwrap();
    assert_eq!(recorder.sample(recorder.profile(), again), before);
    assert_eq!(before.size, 4321);
    recorder.complete(again, address);
    assert_eq!(recording.live(), []);
    assert_eq!(recorder.claim(address), None);
    assert_eq!(recording.health(Health::Frees), 1);
    assert_eq!(page_filter::of(address).load(Relaxed), 0);
}

#[test]
fn page_filter_is_never_wrong() {
    let recording = Recording::new(2 << 20);
    let mut draw = random_numbers(3);
    let mut live: Vec<u64> = Vec::new();
    // Six pages with room for 512 blocks of 8 bytes each, so counts pass 255; two pages share a byte.
    let pages = [0x10, 0x11, 0x12, 0x13, 0x14, 0x10 + FILTER_PAGES as u64];
    let mut largest = 0;
    for step in 0..40_000 {
        let grows = draw(100) < if step / 5000 % 2 == 0 { 80 } else { 20 };
        if grows {
            let address = pages[draw(6) as usize] << 12 | draw(512) << 3;
            if !live.contains(&address) {
                recording.record(address, 8, 0x1000);
                live.push(address);
            }
        } else if !live.is_empty() {
            let address = live.swap_remove(draw(live.len() as u64) as usize);
            assert!(recording.recorder.claim(address).is_some_and(|claim| {
                recording.recorder.complete(claim, address);
                true
            }));
        }
        largest = largest.max(page_filter::of(pages[0] << 12).load(Relaxed));
        if step % 500 == 0 {
            assert!(live.iter().all(|&address| page_filter::of(address).load(Relaxed) != 0));
        }
    }
    assert_eq!(largest, u8::MAX);
    assert_eq!(recording.health(Health::DroppedLive), 0);
    assert_eq!(recording.live().len(), live.len());
    live.iter().for_each(|&address| forget(recording.recorder, address));
    assert!(recording.live().is_empty());
    // A page that was full is not known any more and stays a "maybe"; one that never was is a "no" again.
    assert_eq!(page_filter::of(pages[0] << 12).load(Relaxed), u8::MAX);
    recording.record(0x99_9000, 1, 0x1000);
    assert_eq!(page_filter::of(0x99_9000).load(Relaxed), 1);
    forget(recording.recorder, 0x99_9000);
    assert_eq!(page_filter::of(0x99_9000).load(Relaxed), 0);
}
