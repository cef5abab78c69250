//! The recorder: puts samples into the profile file, so that a reader finds every record whole or not at all.
//!
//! No sample waits for another thread: where two threads meet, one of them takes another slot. What does not fit is counted, never lost in
//! silence. (The end of a recording, and a filter that the program installs, wait for slow paths to end: `process`, `sys`.)

mod confine;
mod cost;
mod extents;
mod failures;
mod file;
mod frees;
mod live;
mod meter;
mod objects;
mod scratch;
mod stacks;

pub use extents::Taken;
#[cfg(fuzzing)]
pub use file::start_ticks_in;
pub use live::Claim;
pub use stacks::EMPTY_STACK;

use crate::arch::Thread;
use crate::config::Config;
use crate::sys::{self, permit};
use crate::walk::{self, Caller, End, Walker};
use crate::{counter, page_filter, room, startup};
use core::sync::atomic::Ordering::*;
use cost::Cost;
use extents::Extents;
use file::ProfileFile;
use frees::{Entry, FreeRing};
use meter::{Measurement, Path};
use ramson_format::atomic::AtomicU64;
use ramson_format::{
    FILE_BYTES_RANGE, Health, Kind, NO_STACK, PAGE_BYTES, RegionKind, Stack, lifetime_bucket, state,
};
use scratch::{SCRATCHES, Scratch};
use stacks::{Holder, StackTable};

/// CLOCK_REALTIME, precise.
const REALTIME: usize = 0;
/// CLOCK_REALTIME as of the latest timer tick.
const REALTIME_COARSE: usize = 5;
/// CLOCK_MONOTONIC as of the latest timer tick: ages are minutes, and it is the cheaper one to read.
const MONOTONIC_COARSE: usize = 6;

type ClockGetTime = unsafe extern "C" fn(i32, *mut [u64; 2]) -> i32;

/// One process's recorder. Lives in memory of its own and is never freed; a forked child makes another.
pub struct Recorder {
    pub file: ProfileFile,
    extents: Extents,
    stacks: StackTable,
    frees: FreeRing,
    walker: Walker,
    scratches: [Scratch; SCRATCHES],
    pid: u32,
    main_stack_high: u64,
    /// The kernel's clock without a system call, where it offers one.
    clock: Option<ClockGetTime>,
    cost: Cost,
    keep: bool,
}

/// What a walk found.
struct FoundStack {
    /// `None`: there is no room for it in the stack table.
    stack: Option<u32>,
    end: End,
    is_foreign: bool,
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

impl Recorder {
    /// Makes the profile file and everything else that recording needs. `None`: it cannot be done, the program goes on without.
    pub fn create(config: &Config, may_be_file: bool) -> Option<&'static Self> {
        // Nothing is taken where what is left is too little.
        let room_bytes = room::for_profile(config.file_bytes) & !(PAGE_BYTES - 1);
        if room_bytes < FILE_BYTES_RANGE.0 {
            return None;
        }
        // A program that locks its memory has all of the filter in memory, of which little is used.
        sys::unlock_zeroes((&raw const page_filter::PAGE_FILTER).cast(), page_filter::FILTER_PAGES);
        let memory = sys::map_own(size_of::<Self>()).ok()?;
        // SAFETY: fresh zeroed memory of the right size and alignment (a page); all zero is valid for every field that is
        // not assigned here: integers, flags that are false, an empty path, no function. A field for which 0 is not valid would break it.
        let recorder = unsafe { &mut *memory.cast::<Self>() };
        recorder.main_stack_high = config.main_stack_high;
        recorder.keep = config.keep;
        // SAFETY: the vDSO's symbol of this name has this type, and 0 is `None`. An object with another function of this name would break it.
        recorder.clock = unsafe {
            core::mem::transmute::<usize, Option<ClockGetTime>>(startup::clock_address())
        };
        if !recorder.file.create(config, may_be_file, room_bytes) {
            return None;
        }
        recorder.pid = recorder.file.header().pid.load(Relaxed);
        recorder.stacks.create(&recorder.file)?;
        recorder.frees.length = recorder.file.capacity(RegionKind::RecentFrees);
        let own_bytes = size_of::<Self>() + recorder.stacks.index_bytes();
        recorder.file.count(Health::OwnBytes, own_bytes as u64);
        let (now_ns, stamp) = (recorder.now_ns(), recorder.stamp());
        recorder.cost.begin(config, recorder.file.header(), now_ns, stamp);
        let header = recorder.file.header();
        // Precise: it tells processes apart that containers started in one tick, each as the first of its namespace.
        header.start_realtime_ns.store(recorder.clock_ns(REALTIME), Relaxed);
        header.start_monotonic_ns.store(now_ns, Relaxed);
        header.last_monotonic_ns.store(now_ns, Relaxed);
        header.state.store(state::RECORDING, Release);
        Some(recorder)
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns(MONOTONIC_COARSE)
    }

    fn clock_ns(&self, number: usize) -> u64 {
        // The others may become a system call inside the vDSO, and read the cycle counter.
        let is_precise_harmless = permit::is_full() && counter::is_readable();
        let number = match number {
            _ if is_precise_harmless => number,
            REALTIME => REALTIME_COARSE,
            _ => MONOTONIC_COARSE,
        };
        let Some(clock) = self.clock else { return sys::clock_ns(number) };
        let mut time = [0u64; 2];
        // SAFETY: the vDSO's clock_gettime fills a struct timespec and takes no lock.
        unsafe { clock(number as i32, &mut time) };
        time[0] * 1_000_000_000 + time[1]
    }

    /// Charges sums that were collected before the file was there to the kind's overflow stack, and empties them.
    pub fn take_over(&self, kind: Kind, early: &Stack) {
        let overflow = self.stacks.entry(&self.file, kind.overflow_stack());
        let samples = early.sampled_alloc_objects.swap(0, AcqRel);
        overflow.sampled_alloc_objects.fetch_add(samples, Relaxed);
        overflow.sampled_alloc_bytes.fetch_add(early.sampled_alloc_bytes.swap(0, AcqRel), Relaxed);
        for (from, to) in [
            (&early.unsampled_alloc_objects, &overflow.unsampled_alloc_objects),
            (&early.unsampled_alloc_space, &overflow.unsampled_alloc_space),
            (&early.alloc_objects_variance, &overflow.alloc_objects_variance),
            (&early.alloc_space_variance, &overflow.alloc_space_variance),
        ] {
            add_float(to, f64::from_bits(from.swap(0, AcqRel)));
        }
        let counters = match kind {
            Kind::Heap => [Health::Samples, Health::DroppedWalks],
            Kind::Mmap => [Health::Extents, Health::DroppedExtents],
        };
        for counter in counters {
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
        let measurement = Measurement::begin(&self.file, Path::Sample, Health::Samples);
        let now_ns = self.now_ns();
        if let Some(stale) = self.claim(address) {
            self.file.count(Health::Healed, 1);
            self.complete(stale, address);
        }
        let stack = self.stack_of(thread, Kind::Heap, caller, now_ns);
        let counters = self.stacks.entry(&self.file, stack);
        count_allocation(counters, size, inverse_probability);
        self.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        let sample = live::Sample {
            size,
            inverse_probability,
            monotonic_ns: now_ns,
            stack,
            tid: self.tid(thread),
            flags: 0,
            number: 0,
        };
        self.raise_filter(address);
        if !live::insert(&self.file, address, &sample) {
            page_filter::lower(address);
            self.file.count(Health::DroppedLive, 1);
        }
        measurement.end(&self.file);
        self.govern(now_ns);
    }

    /// Counts a record on the page of `address`.
    fn raise_filter(&self, address: u64) {
        if page_filter::raise(address) == Ok(0) {
            self.cost.count_filter_page(&self.file, address);
        }
    }

    /// The kernel's id of this thread; where it must not be asked, from the C library's own record.
    fn tid(&self, thread: &Thread) -> u32 {
        if thread.tid.get() == 0 {
            thread.tid.set(match sys::thread_id() {
                0 => startup::recorded_thread_id(),
                id => id,
            });
        }
        thread.tid.get()
    }

    /// Index of the current stack in the stack table; the kind's overflow stack if it cannot be told.
    fn stack_of(&self, thread: &Thread, kind: Kind, caller: Caller, now_ns: u64) -> u32 {
        let flags = kind.stack_flags();
        let Some(found) = self.walk(thread, caller, flags, Holder::Allocation, now_ns) else {
            self.file.count(Health::DroppedWalks, 1);
            return kind.overflow_stack();
        };
        self.file.count(Health::ForeignWalks, found.is_foreign as u64);
        match found.end {
            End::Outermost => {}
            End::Cut => self.file.count(Health::CutWalks, 1),
            End::Failed => self.file.count(Health::FailedWalks, 1),
        }
        found.stack.unwrap_or_else(|| {
            self.file.count(Health::DroppedStacks, 1);
            kind.overflow_stack()
        })
    }

    /// Walks the stack and interns it with these flags and those that the walk gives. `None`: it cannot be walked now.
    fn walk(
        &self,
        thread: &Thread,
        caller: Caller,
        flags: u32,
        holder: Holder,
        now_ns: u64,
    ) -> Option<FoundStack> {
        if walk::is_short_of_stack(thread, &caller) {
            return None;
        }
        let scratch = scratch::take(&self.scratches, thread)?;
        // SAFETY: taking the scratch made it ours alone until it is given back.
        let (frames, copy) = unsafe {
            let scratch = core::ptr::from_ref(scratch).cast_mut();
            (&mut (*scratch).frames, &mut (*scratch).copy)
        };
        let known_low = thread.stack_low.get();
        let view = walk::view_of(thread, &caller, self.pid, self.main_stack_high, copy);
        let walked = self.walker.walk(caller, &view, frames, self);
        if thread.stack_low.get() != known_low {
            self.walker.confirm_stack(thread, caller, &view, known_low, self.main_stack_high);
        }
        self.file.count(Health::RulesCompiled, walked.rules_compiled);
        // After the walk: whoever met an object first, its mapping counts from an epoch before. It stays while we are in it.
        let epoch = self.file.header().epoch.load(Acquire);
        let frames = frames.get(..walked.depth).unwrap_or_default();
        let flags = flags | walked.end.stack_flags();
        let stack = self.stacks.intern(&self.file, epoch, frames, flags, holder, now_ns);
        scratch.give_back();
        Some(FoundStack { stack, end: walked.end, is_foreign: view.is_foreign })
    }

    /// Takes hold of the record of `address`, if there is one. Must be completed or restored.
    pub fn claim(&self, address: u64) -> Option<Claim> {
        if page_filter::of(address).load(Relaxed) == 0 {
            return None;
        }
        live::claim(&self.file, address)
    }

    /// The claimed sample is freed.
    pub fn complete(&self, claim: Claim, address: u64) {
        let measurement = Measurement::begin(&self.file, Path::Free, Health::Frees);
        self.take_out(claim, address);
        measurement.end(&self.file);
    }

    /// Whether frees are to be remembered.
    #[inline]
    pub fn remembers_frees(&self) -> bool {
        self.frees.length != 0
    }

    /// The claimed sample is freed by `caller`, to be remembered; `None` if that cannot be walked from here.
    pub fn complete_free(
        &self,
        thread: &Thread,
        claim: Claim,
        address: u64,
        caller: Option<Caller>,
    ) {
        let measurement = Measurement::begin(&self.file, Path::Free, Health::Frees);
        let (sample, now_ns) = self.take_out(claim, address);
        // Last: a signal handler may leave a walk for good, and the sample is out of the table by then.
        let flags = Kind::Heap.stack_flags();
        let free_stack =
            caller.and_then(|caller| self.walk(thread, caller, flags, Holder::Free, now_ns)?.stack);
        self.file.count(Health::UnknownFreeStacks, free_stack.is_none() as u64);
        let entry = Entry {
            address,
            size: sample.size,
            alloc_monotonic_ns: sample.monotonic_ns,
            free_monotonic_ns: now_ns,
            alloc_stack: sample.stack,
            free_stack: free_stack.unwrap_or(NO_STACK),
            alloc_tid: sample.tid,
            free_tid: self.tid(thread),
        };
        let is_kept = self.frees.push(&self.file, &entry);
        self.file.count(Health::DroppedFrees, !is_kept as u64);
        measurement.end(&self.file);
    }

    /// Takes the claimed sample out of the live table, now.
    fn take_out(&self, claim: Claim, address: u64) -> (live::Sample, u64) {
        let (sample, now_ns) = (live::sample(&self.file, claim), self.now_ns());
        let lifetime_ns = now_ns.saturating_sub(sample.monotonic_ns);
        count_free(self.stacks.entry(&self.file, sample.stack), &sample, lifetime_ns);
        live::release(&self.file, claim);
        page_filter::lower(address);
        if sample.flags != 0 {
            // An extent that was unmapped unseen, whose start an allocator has now.
            self.forget_end(address + sample.size);
        }
        (sample, now_ns)
    }

    /// The claimed sample lives on.
    pub fn restore(&self, claim: Claim, address: u64) {
        live::restore(&self.file, claim, address);
    }

    /// A normal exit of this process; `status` is known if it is that of `_exit`, which a child may call that shares our memory.
    pub fn finish(&self, status: Option<i32>) {
        let is_child = match sys::process_id() {
            0 => status.is_some(),
            pid => pid != self.pid,
        };
        if is_child {
            return;
        }
        let header = self.file.header();
        if header.state.load(Relaxed) != state::RECORDING {
            // exit(3) has been here already; _exit now knows nothing better.
            return;
        }
        header.exit_status.store(status.unwrap_or(-1), Relaxed);
        self.publish_stamp();
        header.state.store(state::EXITED, Release);
        if !self.keep {
            self.file.unlink();
        }
    }
}

/// Adds a sampled allocation to a stack's counters.
pub fn count_allocation(stack: &Stack, size: u64, inverse_probability: f64) {
    stack.sampled_alloc_objects.fetch_add(1, Relaxed);
    stack.sampled_alloc_bytes.fetch_add(size, Relaxed);
    // Nothing more where everything is recorded: each of these is a locked instruction.
    let (bytes, unsampled) = (size as f64, inverse_probability - 1.0);
    if unsampled > 0.0 {
        add_float(&stack.unsampled_alloc_objects, unsampled);
        add_float(&stack.unsampled_alloc_space, unsampled * bytes);
        // (1 − p)/p².
        let variance = inverse_probability * unsampled;
        add_float(&stack.alloc_objects_variance, variance);
        add_float(&stack.alloc_space_variance, variance * bytes * bytes);
    }
}

fn count_free(stack: &Stack, sample: &live::Sample, lifetime_ns: u64) {
    stack.sampled_freed_objects.fetch_add(1, Relaxed);
    stack.sampled_freed_bytes.fetch_add(sample.size, Relaxed);
    let unsampled = sample.inverse_probability - 1.0;
    if unsampled > 0.0 {
        add_float(&stack.unsampled_freed_objects, unsampled);
        add_float(&stack.unsampled_freed_space, unsampled * sample.size as f64);
    }
    if let Some(bucket) = stack.lifetimes.get(lifetime_bucket(lifetime_ns)) {
        bucket.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
