//! The recorder with every order of its threads' steps that has at most two switches away from a thread that could go on, and every
//! value that the memory orders let them see (`make model`).
//!
//! loom runs the real code on a real profile file. Each model names a fault that it finds: put into the code, it fails.
//!
//! Threads of the program see what the declared memory orders allow. A reader outside sees stores one after the other (`Seen::AtOnce`), as the
//! kernel copies on x86-64: a wrong order between writer and reader is found as a wrong sequence of stores only.

use super::frees::{entry_of, is_whole};
use super::stacks::{frames_in, intern};
use super::*;
use loom::thread;
use ramson_format::LIVE_FIRST_SEGMENT;
use ramson_format::atomic::Seen::{AsOrdered, AtOnce};
use ramson_format::atomic::{copy, model};
use ramson_reader::{Defect, LookupAddress, ReadAt, Snapshot};
use std::io;
use std::sync::Arc;

/// A recording that all executions of a model begin with.
struct Subject(*mut Recording);

impl Subject {
    /// With a clock that stands still: each execution must do the same.
    fn new() -> Self {
        Self::of(Recording::new(1 << 20))
    }

    fn of(recording: Recording) -> Self {
        extern "C" fn stopped(_: i32, time: *mut [u64; 2]) -> i32 {
            // SAFETY: `now_ns` passes a valid pointer.
            unsafe { *time = [1, 0] };
            0
        }
        recording.recorder.clock.store(stopped as *const () as usize, Relaxed);
        Self(Box::into_raw(Box::new(recording)))
    }

    /// For the model's threads, which end before `self` does.
    fn recording(&self) -> &'static Recording {
        // SAFETY: lives until `drop`, which comes after the model.
        unsafe { &*self.0 }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and no model runs any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Recording {
    /// Records on a thread of a model; all of those are one thread of the system.
    fn record_as(&self, tid: u32, address: u64, frame: u64) {
        // SAFETY: `Thread` is integers in cells; all zero is its initial state.
        let thread: Thread = unsafe { core::mem::zeroed() };
        thread.tid.set(tid);
        let on_this_stack = 0u64;
        let stack_pointer = (&raw const on_this_stack) as u64;
        // Known, so that the walk need not ask the system.
        thread.stack_low.set(stack_pointer);
        thread.stack_high.set(stack_pointer + 8);
        let caller =
            Caller { lookup_address: LookupAddress(frame), stack_pointer, frame_pointer: 0 };
        self.recorder.record(&thread, address, SIZE, 2.0, &caller);
    }

    fn free(&self, address: u64) -> bool {
        let claim = self.recorder.claim(address);
        claim.into_iter().for_each(|claim| self.recorder.complete(claim, address));
        claim.is_some()
    }

    fn snapshot(&self) -> Snapshot {
        let base = self.file().header() as *const _ as usize;
        Snapshot::read(&Running { base, length: 1 << 20 }).expect("it is always readable")
    }
}

const SIZE: u64 = 48;
const A: u64 = 0x7000_0000_1000;
/// On the same page.
const B: u64 = A + 64;

/// The file as a reader outside sees it: word after word.
struct Running {
    base: usize,
    length: usize,
}

impl ReadAt for Running {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = (offset as usize).min(self.length);
        let length = buffer.len().min(self.length - offset);
        let start = self.base + offset;
        // SAFETY: inside the mapping. Bytes that are no word of the model do not change.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, length) };
        buffer[..length].copy_from_slice(bytes);
        copy(start..start + length, |address, word| {
            let room = &mut buffer[address - start..];
            let length = word.len().min(room.len());
            room[..length].copy_from_slice(&word[..length]);
        });
        Ok(length)
    }
}

/// `count` addresses whose windows in the first two segments are those of one line.
fn of_one_window(count: usize) -> Vec<u64> {
    let is_there = |address: &u64| ramson_format::mix(0, address >> 3) & 2047 & !7 == 64;
    (A..).step_by(64).filter(is_there).take(count).collect()
}

/// Finds: a slot that is taken by a store instead of a compare-and-exchange, so that one sample overwrites the other.
#[test]
fn two_threads_insert_into_one_window() {
    let subject = Subject::new();
    let recording = subject.recording();
    let addresses = of_one_window(2);
    model(AsOrdered, move || {
        let insert = |recording: &Recording, address: u64| {
            assert!(live::insert(recording.file(), address, &sample_of(address)));
        };
        let address = addresses[1];
        let thread = thread::spawn(move || insert(recording, address));
        insert(recording, addresses[0]);
        thread.join().unwrap();
        for &address in &addresses {
            let claim = live::claim(recording.file(), address).expect("overwritten");
            assert_eq!(live::sample(recording.file(), claim), sample_of(address));
        }
    });
}

/// Finds: a claim by load and store; one whose load is relaxed, so that it sees old fields.
#[test]
fn one_thread_claims_a_record() {
    let subject = Subject::new();
    let recording = subject.recording();
    model(AsOrdered, move || {
        let claim = |recording: &Recording| {
            let claim = live::claim(recording.file(), A)?;
            Some(live::sample(recording.file(), claim))
        };
        let threads = [(); 2].map(|()| thread::spawn(move || claim(recording)));
        assert!(live::insert(recording.file(), A, &sample_of(A)));
        let claims = threads.map(|thread| thread.join().unwrap());
        let claims = claims.into_iter().chain([claim(recording)]).flatten().collect::<Vec<_>>();
        assert_eq!(claims, [sample_of(A)]);
    });
}

/// Finds: giving up after one growth, when other threads have meanwhile filled what was made.
#[test]
fn growable_table_is_never_full() {
    let subject = Subject::new();
    let recording = subject.recording();
    let addresses = of_one_window(16 + 15 + 2);
    let file = recording.file();
    let first = LIVE_FIRST_SEGMENT;
    let of_two = live_segment(2).0;
    // The window is full in the first segment, and in the next one but for a slot; that one is yet to be made.
    addresses[2..].iter().for_each(|&address| {
        assert!(live::insert(file, address, &sample_of(address)));
    });
    assert_eq!(file.committed(RegionKind::LiveKeys), of_two);
    for kind in [RegionKind::LiveKeys, RegionKind::LiveSamples] {
        file.committed[kind as usize].store(first, Relaxed);
        file.header().region(kind).committed.store(first, Relaxed);
    }
    model(AsOrdered, move || {
        let insert = |recording: &Recording, address: u64| {
            assert!(live::insert(recording.file(), address, &sample_of(address)), "dropped");
        };
        let address = addresses[1];
        let thread = thread::spawn(move || insert(recording, address));
        insert(recording, addresses[0]);
        thread.join().unwrap();
        for &address in &addresses[..2] {
            let claim = live::claim(recording.file(), address).expect("lost");
            assert_eq!(live::sample(recording.file(), claim), sample_of(address));
        }
    });
}

/// Finds: a page's byte that is lowered or raised by load and store; one that is raised after the record is there.
#[test]
fn page_filter_covers_recorded_blocks() {
    let subject = Subject::new();
    let recording = subject.recording();
    let handed = Arc::new(AtomicU64::new(0));
    recording.record_as(1, B, 0x2000);
    model(AsOrdered, move || {
        let from = handed.clone();
        // One thread frees a block of the page; another allocates one there and hands it to a third, which frees it.
        let frees = thread::spawn(move || assert!(recording.free(B), "a wrong no"));
        let is_handed = thread::spawn(move || match from.load(Acquire) {
            0 => false,
            address => recording.free(address),
        });
        recording.record_as(1, A, 0x1000);
        handed.store(A, Release);
        frees.join().unwrap();
        let was_freed = is_handed.join().unwrap();
        assert!(was_freed != recording.free(A), "a wrong no");
        assert_eq!(page_filter::of(A).load(Relaxed), 0);
    });
}

/// Finds: a record that is published before its fields are stored; a stack that is in use before it is committed.
#[test]
fn reader_finds_whole_records() {
    let subject = Subject::new();
    let recording = subject.recording();
    model(AtOnce, move || {
        let reader = thread::spawn(|| recording.snapshot());
        recording.record_as(1, A, 0x1000);
        recording.free(A);
        recording.record_as(1, A, 0x2000);
        let snapshot = reader.join().unwrap();
        let one = |address| [LookupAddress(address)];
        for sample in &snapshot.live {
            let frames = &snapshot.stacks[sample.stack].frames;
            assert_eq!((sample.address, sample.size, sample.tid), (A, SIZE, 1));
            assert!(frames[..] == one(0x1000) || frames[..] == one(0x2000), "{frames:x?}");
        }
        assert!(snapshot.live.len() <= 1);
        for stack in &snapshot.stacks[ramson_format::KINDS.len()..] {
            assert!(stack.frames[..] == one(0x1000) || stack.frames[..] == one(0x2000));
        }
        let may_be =
            |defect: &Defect| matches!(defect, Defect::TornSamples(1) | Defect::BadStacks(1));
        assert!(snapshot.defects.iter().all(may_be), "{:?}", snapshot.defects);
        let at_the_end = recording.snapshot();
        assert_eq!((at_the_end.defects.len(), at_the_end.live.len()), (0, 1));
        assert_eq!(at_the_end.stacks[at_the_end.live[0].stack].frames, one(0x2000));
    });
}

/// Finds: a check without one of the fields or without the number, so that a mixture of two entries is taken for one.
#[test]
fn ring_entries_stay_whole() {
    let subject = Subject::of(Recording::in_nursery(1 << 20, 1));
    subject.recording().move_out();
    let recording = subject.recording();
    model(AtOnce, move || {
        let ring = &recording.recorder.frees;
        let thread = thread::spawn(move || ring.push(recording.file(), &entry_of(1)));
        assert!(ring.push(recording.file(), &entry_of(2)));
        let meanwhile = recording.snapshot();
        assert!(thread.join().unwrap());
        for snapshot in [meanwhile, recording.snapshot()] {
            assert!(snapshot.freed.iter().all(is_whole), "{:?}", snapshot.freed);
        }
    });
}

/// Finds: an index entry that is stored with a relaxed order, so that another thread takes the stack for a different one.
#[test]
fn same_new_stack_gets_one_number() {
    let subject = Subject::new();
    let recording = subject.recording();
    model(AsOrdered, move || {
        let frames = [0x1000, 0x2000];
        let thread = thread::spawn(move || intern(recording, 0, &frames));
        let ours = intern(recording, 0, &frames).unwrap();
        assert_eq!(thread.join().unwrap(), Some(ours));
        assert_eq!(intern(recording, 0, &frames), Some(ours));
        assert_eq!(frames_in(recording, ours), frames);
        let other = intern(recording, 1, &frames).unwrap();
        assert_ne!(other, ours);
        assert_eq!(frames_in(recording, other), frames);
    });
}

/// Finds: frames or entries that two threads reserve by load and store.
#[test]
fn new_stacks_share_no_room() {
    let subject = Subject::new();
    let recording = subject.recording();
    model(AsOrdered, move || {
        let thread = thread::spawn(move || intern(recording, 0, &[0x1000, 0x2000]).unwrap());
        let ours = intern(recording, 0, &[0x3000, 0x4000]).unwrap();
        let theirs = thread.join().unwrap();
        assert_eq!(frames_in(recording, ours), [0x3000, 0x4000]);
        assert_eq!(frames_in(recording, theirs), [0x1000, 0x2000]);
    });
}

/// Finds: a scratch that is given back with a relaxed store, and one that is taken by load and store.
#[test]
fn a_scratch_belongs_to_one_walk() {
    let subject = Subject::new();
    let recording = subject.recording();
    recording.recorder.scratches.owners().skip(1).for_each(|owner| owner.store(1, Relaxed));
    model(AsOrdered, move || {
        let contents = Arc::new(loom::cell::UnsafeCell::new(0));
        let work = |recording: &Recording, contents: &loom::cell::UnsafeCell<u64>| {
            // SAFETY: `Thread` is integers in cells; all zero is its initial state.
            let thread: Thread = unsafe { core::mem::zeroed() };
            if let Some(scratch) = recording.recorder.scratches.take(&thread) {
                // SAFETY: loom fails the model if two threads do this at once.
                contents.with_mut(|contents| unsafe { *contents += 1 });
                scratch.give_back();
            }
        };
        let theirs = contents.clone();
        let thread = thread::spawn(move || work(recording, &theirs));
        work(recording, &contents);
        thread.join().unwrap();
        assert!(recording.recorder.scratches.take(arch::thread()).is_some());
    });
}

/// Finds: a free that does not know marked keys; one that does not take its mark off; a mover that publishes by a store, or gives the slot
/// of a cancelled move back before its mark is gone.
#[test]
fn moving_block_is_freed_once() {
    let subject = Subject::of(Recording::in_nursery(1 << 20, 0));
    let recording = subject.recording();
    recording.record_as(1, A, 0x1000);
    let recorder = recording.recorder;
    let slot = live::find(recording.file(), A).unwrap().0;
    let profile = Profile::create(&recording.config, true, recording.config.file_bytes).unwrap();
    recorder.moved.store(core::ptr::from_ref(profile) as u64, Relaxed);
    model(AsOrdered, move || {
        let mover = thread::spawn(move || recorder.move_record(profile, slot, A));
        let free = || {
            recorder
                .claim(A)
                .map(|claim| recorder.take_out(recorder.profile_of(claim), claim, A).0.size)
        };
        assert_eq!(free(), Some(SIZE), "lost");
        assert!(recorder.insert(profile, A, &sample_of(77)));
        page_filter::raise(A).unwrap();
        assert_eq!(free(), Some(77), "the first one again");
        mover.join().unwrap();
        assert_eq!(free(), None);
        assert_eq!(recorder.nursery.left(), 0);
        assert_eq!(page_filter::of(A).load(Relaxed), 0);
    });
}

/// Finds: a record that is published before its fields are stored; a mark that is set before the place is known.
#[test]
fn moving_block_is_found() {
    let subject = Subject::of(Recording::in_nursery(1 << 20, 0));
    let recording = subject.recording();
    recording.record_as(1, A, 0x1000);
    recording.record_as(1, B, 0x1000);
    let recorder = recording.recorder;
    let slots = [A, B].map(|address| (live::find(recording.file(), address).unwrap().0, address));
    let profile = Profile::create(&recording.config, true, recording.config.file_bytes).unwrap();
    recorder.moved.store(core::ptr::from_ref(profile) as u64, Relaxed);
    model(AsOrdered, move || {
        let mover = thread::spawn(move || {
            slots.iter().for_each(|&(slot, address)| recorder.move_record(profile, slot, address));
        });
        let claim = recorder.claim(B).expect("lost");
        assert_eq!(recorder.sample(recorder.profile_of(claim), claim).size, SIZE);
        recorder.take_out(recorder.profile_of(claim), claim, B);
        mover.join().unwrap();
        let claim = recorder.claim(A).expect("lost");
        assert_eq!(recorder.sample(recorder.profile_of(claim), claim).size, SIZE);
        assert_eq!(recorder.nursery.left(), 0);
        assert_eq!(recorder.claim(B), None);
    });
}

/// Finds: a mover that calls the file whole while another thread still moves the rest.
#[test]
fn moved_file_is_whole() {
    let subject = Subject::of(Recording::in_nursery(1 << 20, 0));
    let recording = subject.recording();
    recording.record_as(1, A, 0x1000);
    let recorder = recording.recorder;
    let profile = Profile::create(&recording.config, true, recording.config.file_bytes).unwrap();
    model(AsOrdered, move || {
        let other = thread::spawn(move || recorder.drain());
        recorder.move_to(profile);
        assert_eq!(profile.file.header().state.load(Acquire), state::RECORDING);
        assert_eq!(recorder.nursery.left(), 0);
        other.join().unwrap();
    });
}
