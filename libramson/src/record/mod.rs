//! The recorder: puts samples into the profile file, so that a reader finds every record whole or not at all.
//!
//! Nothing here waits: where two threads meet, one of them takes another slot. What does not fit is counted, never lost in silence.

mod file;
mod live;
mod stacks;

pub use live::Claim;
pub use stacks::EMPTY_STACK;

use crate::arch::Thread;
use crate::config::Config;
use crate::process::{FILTER_PAGES, PAGE_FILTER};
use crate::resolve;
use crate::sys;
use crate::text::Text;
use crate::walk::{self, Caller, End, NewMapping, Walker};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use file::ProfileFile;
use live::LiveTable;
use ramson_format::{
    BEGUN, COMMITTED, EPOCH_OPEN, Health, MAX_DEPTH, Mapping, RegionKind, Stack, lifetime_bucket,
    mapping_check, stack_flags, state,
};
use stacks::StackTable;

/// Walks that may be under way at once; each holds one scratch.
const SCRATCHES: usize = 64;
/// Bytes of a foreign stack that are copied for a walk.
const COPY_BYTES: usize = 32 << 10;

/// Room for one walk, so that it takes little of the program's stack.
struct Scratch {
    is_taken: AtomicU32,
    frames: [u64; MAX_DEPTH],
    copy: [u8; COPY_BYTES],
}

/// CLOCK_MONOTONIC as of the latest timer tick: ages are minutes, and it is the cheaper one to read.
const MONOTONIC_COARSE: usize = 6;

type ClockGetTime = unsafe extern "C" fn(i32, *mut [u64; 2]) -> i32;

/// One process's recorder. Lives in memory of its own and is never freed; a forked child makes another.
pub struct Recorder {
    file: ProfileFile,
    live: LiveTable,
    stacks: StackTable,
    walker: Walker,
    scratches: [Scratch; SCRATCHES],
    pid: u32,
    main_stack_high: u64,
    /// The kernel's clock without a system call, where it offers one.
    clock: Option<ClockGetTime>,
    keep: bool,
}

/// Adds to a float that is kept as bits.
#[inline]
fn add_float(cell: &AtomicU64, addend: f64) {
    let mut current = cell.load(Relaxed);
    loop {
        let sum = (f64::from_bits(current) + addend).to_bits();
        match cell.compare_exchange_weak(current, sum, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(actual) => current = actual,
        }
    }
}

fn filter_of(address: u64) -> &'static AtomicU8 {
    &PAGE_FILTER.0[(address >> 12) as usize & (FILTER_PAGES - 1)]
}

impl Recorder {
    /// Makes the profile file and everything else that recording needs. `None`: it cannot be done, the program goes on without.
    pub fn create(config: &Config) -> Option<&'static Self> {
        let memory = sys::map_own(size_of::<Self>()).ok()?;
        // SAFETY: fresh zeroed memory of the right size and alignment (a page); all zero is valid for every field that is
        // not assigned here (`Option` of a function is None, `File` has only integers and a zeroed path).
        let recorder = unsafe { &mut *memory.cast::<Self>() };
        recorder.pid = sys::process_id();
        recorder.main_stack_high = config.main_stack_high;
        recorder.keep = config.keep;
        recorder.clock = resolve::find_next(c"__vdso_clock_gettime", 0)
            // SAFETY: the vDSO's symbol of this name has this type.
            .map(|(address, _)| unsafe { core::mem::transmute::<usize, ClockGetTime>(address) });
        if !recorder.file.create(config, recorder.pid) {
            return None;
        }
        recorder.stacks.create(&recorder.file)?;
        let own_bytes = size_of::<Self>() + recorder.stacks.index_bytes();
        recorder.file.count(Health::OwnBytes, own_bytes as u64);
        let header = recorder.file.header();
        header.start_monotonic_ns.store(recorder.now_ns(), Relaxed);
        header.last_monotonic_ns.store(recorder.now_ns(), Relaxed);
        header.state.store(state::RECORDING, Release);
        Some(recorder)
    }

    fn now_ns(&self) -> u64 {
        let Some(clock) = self.clock else { return sys::clock_ns(MONOTONIC_COARSE) };
        let mut time = [0u64; 2];
        // SAFETY: the vDSO's clock_gettime fills a struct timespec and takes no lock.
        unsafe { clock(MONOTONIC_COARSE as i32, &mut time) };
        time[0] * 1_000_000_000 + time[1]
    }

    /// Charges sums that were collected before the file was there to the overflow stack, and empties them.
    pub fn take_over(&self, early: &Stack) {
        let overflow = self.stacks.entry(&self.file, 0);
        let samples = early.sampled_alloc_objects.swap(0, AcqRel);
        overflow.sampled_alloc_objects.fetch_add(samples, Relaxed);
        overflow.sampled_alloc_bytes.fetch_add(early.sampled_alloc_bytes.swap(0, AcqRel), Relaxed);
        for (from, to) in [
            (&early.alloc_objects, &overflow.alloc_objects),
            (&early.alloc_space, &overflow.alloc_space),
            (&early.alloc_objects_variance, &overflow.alloc_objects_variance),
            (&early.alloc_space_variance, &overflow.alloc_space_variance),
        ] {
            add_float(to, f64::from_bits(from.swap(0, AcqRel)));
        }
        for counter in [Health::Samples, Health::DroppedWalks] {
            self.file.count(counter, samples);
        }
    }

    /// Records a sampled allocation.
    pub fn record(
        &self,
        thread: &Thread,
        address: u64,
        size: u64,
        inverse_probability: f64,
        caller: Caller,
    ) {
        let now_ns = self.now_ns();
        if thread.tid.get() == 0 {
            thread.tid.set(sys::thread_id());
        }
        if let Some(stale) = self.claim(address) {
            self.file.count(Health::Healed, 1);
            self.complete(stale, address);
        }
        let stack = self.stack_of(thread, caller, now_ns);
        let counters = self.stacks.entry(&self.file, stack);
        count_allocation(counters, size, inverse_probability);
        self.file.count(Health::Samples, 1);
        self.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        let sample = live::Sample {
            size,
            inverse_probability,
            monotonic_ns: now_ns,
            stack,
            tid: thread.tid.get(),
        };
        let filter = filter_of(address);
        let _ = filter.fetch_update(Relaxed, Relaxed, |count| count.checked_add(1));
        if !self.live.insert(&self.file, address, &sample) {
            lower(filter);
            self.file.count(Health::DroppedLive, 1);
        }
    }

    /// Index of the current stack in the stack table; 0 if it cannot be told.
    fn stack_of(&self, thread: &Thread, caller: Caller, now_ns: u64) -> u32 {
        let Some((index, scratch)) = self.take_scratch(thread.scratch.get()) else {
            self.file.count(Health::DroppedWalks, 1);
            return 0;
        };
        thread.scratch.set(index);
        // SAFETY: taking the scratch made it ours alone until `is_taken` is 0 again.
        let (frames, copy) = unsafe {
            let scratch = core::ptr::from_ref(scratch).cast_mut();
            (&mut (*scratch).frames, &mut (*scratch).copy)
        };
        let view = walk::view_of(thread, &caller, self.pid, self.main_stack_high, copy);
        if view.is_foreign {
            self.file.count(Health::ForeignWalks, 1);
        }
        let epoch = self.file.header().epoch.load(Acquire);
        let walked = self.walker.walk(caller, &view, frames, self);
        self.file.count(Health::RulesCompiled, walked.rules_compiled);
        let flags = match walked.end {
            End::Outermost => 0,
            End::Cut => {
                self.file.count(Health::CutWalks, 1);
                stack_flags::CUT
            }
            End::Failed => {
                self.file.count(Health::FailedWalks, 1);
                stack_flags::INCOMPLETE
            }
        };
        let epoch =
            if walked.rules_compiled == 0 { epoch } else { self.file.header().epoch.load(Acquire) };
        let frames = frames.get(..walked.depth).unwrap_or_default();
        let stack = self.stacks.intern(&self.file, epoch, frames, flags, now_ns);
        scratch.is_taken.store(0, Release);
        stack.unwrap_or_else(|| {
            self.file.count(Health::DroppedStacks, 1);
            0
        })
    }

    fn take_scratch(&self, last: u32) -> Option<(u32, &Scratch)> {
        (0..SCRATCHES as u32).find_map(|step| {
            let index = (last + step) % SCRATCHES as u32;
            let scratch = self.scratches.get(index as usize)?;
            let is_free = scratch.is_taken.load(Relaxed) == 0;
            // Pairs with the release at the end of `stack_of`.
            let is_ours =
                is_free && scratch.is_taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
            is_ours.then_some((index, scratch))
        })
    }

    /// Takes hold of the record of `address`, if there is one. Must be completed or restored.
    pub fn claim(&self, address: u64) -> Option<Claim> {
        if filter_of(address).load(Relaxed) == 0 {
            return None;
        }
        self.live.claim(&self.file, address)
    }

    /// The claimed sample is freed.
    pub fn complete(&self, claim: Claim, address: u64) {
        let sample = self.live.sample(&self.file, claim);
        let lifetime_ns = self.now_ns().saturating_sub(sample.monotonic_ns);
        count_free(self.stacks.entry(&self.file, sample.stack), &sample, lifetime_ns);
        self.file.count(Health::Frees, 1);
        self.live.release(&self.file, claim);
        lower(filter_of(address));
    }

    /// The claimed sample lives on.
    pub fn restore(&self, claim: Claim, address: u64) {
        self.live.restore(&self.file, claim, address);
    }

    /// A normal exit of this process.
    pub fn finish(&self, status: i32) {
        if sys::process_id() != self.pid {
            return;
        }
        let header = self.file.header();
        if header.state.load(Relaxed) != state::RECORDING {
            // exit(3) has been here already; _exit now knows nothing better.
            return;
        }
        header.exit_status.store(status, Relaxed);
        header.last_monotonic_ns.store(self.now_ns(), Relaxed);
        header.state.store(state::EXITED, Release);
        if !self.keep {
            self.file.unlink();
        }
    }
}

/// Lowers a page's count; a count that reached 255 is not known any more and stays.
fn lower(filter: &AtomicU8) {
    let _ = filter.fetch_update(Relaxed, Relaxed, |count| {
        (count != u8::MAX && count != 0).then(|| count - 1)
    });
}

/// Adds a sampled allocation to a stack's counters.
pub fn count_allocation(stack: &Stack, size: u64, inverse_probability: f64) {
    let bytes = size as f64;
    stack.sampled_alloc_objects.fetch_add(1, Relaxed);
    stack.sampled_alloc_bytes.fetch_add(size, Relaxed);
    add_float(&stack.alloc_objects, inverse_probability);
    add_float(&stack.alloc_space, inverse_probability * bytes);
    // (1 − p)/p², which is 0 where everything is recorded.
    let variance = inverse_probability * (inverse_probability - 1.0);
    if variance > 0.0 {
        add_float(&stack.alloc_objects_variance, variance);
        add_float(&stack.alloc_space_variance, variance * bytes * bytes);
    }
}

fn count_free(stack: &Stack, sample: &live::Sample, lifetime_ns: u64) {
    stack.sampled_freed_objects.fetch_add(1, Relaxed);
    stack.sampled_freed_bytes.fetch_add(sample.size, Relaxed);
    add_float(&stack.freed_objects, sample.inverse_probability);
    add_float(&stack.freed_space, sample.inverse_probability * sample.size as f64);
    if let Some(bucket) = stack.lifetimes.get(lifetime_bucket(lifetime_ns)) {
        bucket.fetch_add(1, Relaxed);
    }
}

impl NewMapping for Recorder {
    fn add(&self, facts: &walk::MappingFacts) -> u32 {
        self.add_mapping(facts).unwrap_or_else(|| {
            self.file.count(Health::DroppedMappings, 1);
            u32::MAX
        })
    }

    fn replaced(&self, index: u32) {
        let epoch = self.file.header().epoch.fetch_add(1, AcqRel) + 1;
        if let Some(mapping) = self.file.mapping(index) {
            mapping.epoch_to.store(epoch, Release);
        }
    }
}

impl Recorder {
    fn add_mapping(&self, facts: &walk::MappingFacts) -> Option<u32> {
        let mut own_path = Text::new();
        let path = if facts.path.is_empty() { executable_path(&mut own_path) } else { facts.path };
        let header = self.file.header();
        // The string first: a reader that finds the mapping then knows of it too. Without room for it, no path.
        let path_offset = self.file.add_string(path);
        let path_bytes = path_offset.map_or(0, |_| path.len() as u32);
        let path_offset = path_offset.unwrap_or(0);
        let index = self.file.reserve(RegionKind::Mappings, &header.mapping_count)?;
        let mapping = self.file.mapping(index)?;
        mapping.commit.store(BEGUN, Relaxed);
        let mut build_id = [0u8; 32];
        for (to, from) in build_id.iter_mut().zip(facts.build_id) {
            *to = *from;
        }
        let mut build_id_words = [0u64; 4];
        for (word, bytes) in build_id_words.iter_mut().zip(build_id.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | byte as u64);
        }
        let epoch_from = self.epoch_of_new_mapping(facts);
        let path_word = path_offset as u64 | (path_bytes as u64) << 32;
        let [a, b, c, d] = build_id_words;
        let build_id_bytes = facts.build_id.len().min(32) as u64;
        let check = mapping_check(&[
            facts.start,
            facts.end,
            0,
            facts.bias,
            epoch_from as u64,
            path_word,
            build_id_bytes,
            a,
            b,
            c,
            d,
        ]);
        mapping.start.store(facts.start, Relaxed);
        mapping.end.store(facts.end, Relaxed);
        mapping.file_offset.store(0, Relaxed);
        mapping.bias.store(facts.bias, Relaxed);
        mapping.epoch_from.store(epoch_from, Relaxed);
        mapping.epoch_to.store(EPOCH_OPEN, Relaxed);
        mapping.path_offset.store(path_offset, Relaxed);
        mapping.path_bytes.store(path_bytes, Relaxed);
        mapping.build_id_bytes.store(build_id_bytes as u32, Relaxed);
        mapping.build_id.iter().zip(build_id_words).for_each(|(to, word)| to.store(word, Relaxed));
        mapping.check.store(check, Relaxed);
        mapping.commit.store(COMMITTED, Release);
        Some(index)
    }

    /// An object at an address where another one was counts from now on; any other one counts from the start.
    fn epoch_of_new_mapping(&self, facts: &walk::MappingFacts) -> u32 {
        let header = self.file.header();
        let count = header.mapping_count.load(Acquire);
        let had_another =
            (0..count).filter_map(|index| self.file.mapping(index)).any(|other: &Mapping| {
                other.commit.load(Acquire) == COMMITTED
                    && other.start.load(Relaxed) < facts.end
                    && other.end.load(Relaxed) > facts.start
            });
        if had_another { header.epoch.load(Acquire) } else { 0 }
    }
}

fn executable_path(buffer: &mut Text) -> &[u8] {
    let mut target = [0u8; crate::text::PATH_BYTES];
    let length = sys::read_link(c"/proc/self/exe", &mut target).unwrap_or(0);
    buffer.push(target.get(..length).unwrap_or_default());
    buffer.as_c_str().map_or(b"", CStr::to_bytes)
}

#[cfg(test)]
mod tests;
