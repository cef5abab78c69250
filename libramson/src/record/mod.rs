//! The recorder: puts samples into the profile file, so that a reader finds every record whole or not at all.
//!
//! No sample waits for another thread: where two threads meet, one of them takes another slot. A record that does not fit is counted,
//! never lost in silence. (The end of a recording, and a filter that the program installs, wait for slow paths to end: `process`, `sys`.)

mod allocators;
mod attached;
mod claims;
mod confine;
mod cost;
mod extents;
mod failures;
mod file;
mod frees;
mod live;
mod meter;
mod moving;
mod nursery;
mod objects;
mod profile;
mod scratch;
mod stacks;

pub use extents::Taken;
#[cfg(fuzzing)]
pub use file::start_ticks_in;
pub use nursery::Claim;
pub use profile::{NurseryMemory, Profile};

use crate::arch::Thread;
use crate::config::Config;
use crate::sys::{self, permit};
use crate::walk::{self, Caller, End, WALKER};
use crate::{counter, page_filter, startup};
use allocators::Allocators;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64 as PlainU64, AtomicUsize, Ordering::*};
use cost::Cost;
use extents::Extents;
use frees::{Entry, FreeRing};
use meter::{Measurement, Path};
use nursery::Nursery;
use profile::NearIndex;
use ramson_format::atomic::AtomicU64;
use ramson_format::{
    Health, Kind, NO_STACK, PRELOADED_FAMILY, RegionKind, Stack, address_of, family_of,
    lifetime_bucket, state,
};
use scratch::Scratches;
use stacks::Holder;

/// CLOCK_REALTIME, precise.
const REALTIME: usize = 0;
/// CLOCK_REALTIME as of the latest timer tick.
const REALTIME_COARSE: usize = 5;
/// CLOCK_MONOTONIC as of the latest timer tick: ages are minutes, and it is the cheaper one to read.
const MONOTONIC_COARSE: usize = 6;

type ClockGetTime = unsafe extern "C" fn(i32, *mut [u64; 2]) -> i32;

/// One process's recorder. All zero is one that has not begun. The fields that a forked child touches come first, on as few pages as
/// possible.
#[repr(C)]
pub struct Recorder {
    near_index: NearIndex,
    /// Address of the profile where recording goes on; 0 as long as it is in the nursery.
    moved: AtomicU64,
    /// Address of the kernel's clock without a system call, where it offers one.
    clock: AtomicUsize,
    main_stack_high: PlainU64,
    pid: AtomicU32,
    keep: AtomicBool,
    frees: FreeRing,
    cost: Cost,
    nursery: Nursery,
    scratches: Scratches,
    extents: Extents,
    allocators: Allocators,
}

/// The result of a walk.
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
    /// Makes everything that recording in the nursery needs. Any number of threads may do so at once; true for one of them.
    /// `may_stay`: it may be left later than at the first sample.
    pub fn begin(
        &'static self,
        memory: &'static NurseryMemory,
        config: &Config,
        pid: u32,
        may_stay: bool,
    ) -> bool {
        self.main_stack_high.store(config.main_stack_high, Relaxed);
        self.keep.store(config.keep, Relaxed);
        self.clock.store(startup::clock_address(), Relaxed);
        self.pid.store(pid, Relaxed);
        let is_first = self.nursery.begin(memory, &self.near_index, config, pid, may_stay);
        let profile = self.nursery.profile();
        let now_ns = self.now_ns();
        let stamp = self.stamp();
        self.cost.begin(config, profile.file.header(), now_ns, stamp);
        let header = profile.file.header();
        let set = |cell: &AtomicU64, now| {
            let _ = cell.compare_exchange(0, now, Relaxed, Relaxed);
        };
        // Precise: it tells processes apart that containers started in one tick, each as the first of its namespace.
        set(&header.start_realtime_ns, self.clock_ns(REALTIME));
        set(&header.start_monotonic_ns, now_ns);
        set(&header.last_monotonic_ns, now_ns);
        let _ = header.state.compare_exchange(state::MAKING, state::RECORDING, Release, Relaxed);
        is_first
    }

    /// Returns the profile in which samples are recorded now.
    #[inline]
    pub fn profile(&self) -> &Profile {
        self.moved().unwrap_or(self.nursery.profile())
    }

    /// The coarse monotonic clock.
    pub fn now_ns(&self) -> u64 {
        self.read_clock(MONOTONIC_COARSE)
    }

    /// A precise clock, or the coarse one in its place: the precise ones may become a system call inside the vDSO, and read the cycle counter.
    fn clock_ns(&self, number: usize) -> u64 {
        let is_precise_harmless = permit::is_full() && counter::is_readable();
        self.read_clock(match number {
            _ if is_precise_harmless => number,
            REALTIME => REALTIME_COARSE,
            _ => MONOTONIC_COARSE,
        })
    }

    fn read_clock(&self, number: usize) -> u64 {
        // SAFETY: the vDSO's symbol of this name has this type, and 0 is `None`. An object with another function of this name would break it.
        let clock = unsafe {
            core::mem::transmute::<usize, Option<ClockGetTime>>(self.clock.load(Relaxed))
        };
        let Some(clock) = clock else { return sys::clock_ns(number) };
        let mut time = [0u64; 2];
        // SAFETY: the vDSO's clock_gettime fills a struct timespec and takes no lock.
        unsafe { clock(number as i32, &mut time) };
        time[0] * 1_000_000_000 + time[1]
    }

    /// Records a sampled allocation, under its live key.
    pub fn record(
        &self,
        thread: &Thread,
        key: u64,
        size: u64,
        inverse_probability: f64,
        caller: &Caller,
    ) {
        let profile = self.profile();
        let measurement = Measurement::begin(&profile.file, Path::Sample, Health::Samples);
        let now_ns = self.now_ns();
        // The page filter looks at no bit that the family has.
        let stale = if self.raise_filter(key) { None } else { self.claim(key) };
        if let Some(stale) = stale {
            profile.count(Health::Healed, 1);
            self.complete(stale, address_of(key));
        }
        if family_of(key) != PRELOADED_FAMILY {
            self.allocators.count(&profile.file, key, stale.is_some());
        }
        let stack = self.stack_of(profile, thread, Kind::Heap, caller, now_ns);
        count_allocation(profile.stack(stack), size, inverse_probability);
        profile.file.header().last_monotonic_ns.store(now_ns, Relaxed);
        let sample = live::Sample {
            size,
            inverse_probability,
            monotonic_ns: now_ns,
            stack,
            tid: self.tid(thread),
            flags: 0,
            number: 0,
        };
        if !self.insert(profile, key, &sample) {
            page_filter::lower(key);
            profile.count(Health::DroppedLive, 1);
        }
        measurement.end(&profile.file);
        self.settle(profile, size);
        self.govern(now_ns);
    }

    /// Writes the facts of allocators inside objects that the profile has not.
    #[inline]
    pub fn tell_allocators(&self) {
        if self.allocators.has_untold() {
            self.allocators.tell(&self.profile().file);
        }
    }

    /// Counts a record on the page of `address`; whether it is the only one there.
    fn raise_filter(&self, address: u64) -> bool {
        let is_first = page_filter::raise(address) == Ok(0);
        if is_first {
            self.cost.count_filter_page(&self.profile().file, address);
        }
        is_first
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
    fn stack_of(
        &self,
        profile: &Profile,
        thread: &Thread,
        kind: Kind,
        caller: &Caller,
        now_ns: u64,
    ) -> u32 {
        let flags = kind.stack_flags();
        let Some(found) = self.walk(profile, thread, caller, flags, Holder::Allocation, now_ns)
        else {
            profile.count(Health::DroppedWalks, 1);
            return kind.overflow_stack();
        };
        profile.count(Health::ForeignWalks, found.is_foreign as u64);
        match found.end {
            End::Outermost => {}
            End::Cut => profile.count(Health::CutWalks, 1),
            End::Failed => profile.count(Health::FailedWalks, 1),
        }
        found.stack.unwrap_or_else(|| {
            profile.count(Health::DroppedStacks, 1);
            kind.overflow_stack()
        })
    }

    /// Walks the stack and interns it with these flags and those that the walk gives. `None`: it cannot be walked now.
    fn walk(
        &self,
        profile: &Profile,
        thread: &Thread,
        caller: &Caller,
        flags: u32,
        holder: Holder,
        now_ns: u64,
    ) -> Option<FoundStack> {
        if walk::is_short_of_stack(thread, caller) {
            return None;
        }
        let scratch = self.scratches.take(thread)?;
        // SAFETY: taking the scratch made it ours alone until it is given back.
        let (frames, copy) = unsafe { (&mut (*scratch.room).frames, &mut (*scratch.room).copy) };
        let known_low = thread.stack_low.get();
        let pid = self.pid.load(Relaxed);
        let main_high = self.main_stack_high.load(Relaxed);
        let view = walk::view_of(thread, caller, pid, main_high, copy);
        let walked = WALKER.walk(*caller, &view, frames, profile);
        if thread.stack_low.get() != known_low {
            WALKER.confirm_stack(thread, *caller, &view, known_low, main_high);
        }
        let (depth, end) = match walked.end {
            End::Failed => {
                WALKER.walk_goroutine(caller, &view, walked.depth, pid, copy, frames, profile)
            }
            end => (walked.depth, end),
        };
        profile.count(Health::RulesCompiled, walked.rules_compiled);
        // After the walk: whoever met an object first, its mapping counts from an epoch before. It stays while we are in it.
        let epoch = profile.file.header().epoch.load(Acquire);
        let frames = frames.get(..depth).unwrap_or_default().iter().copied();
        let flags = flags | end.stack_flags();
        let stack = profile.stacks.intern(&profile.file, epoch, frames, flags, holder, now_ns);
        scratch.give_back();
        Some(FoundStack { stack, end, is_foreign: view.is_foreign })
    }

    /// The claimed sample is freed.
    pub fn complete(&self, claim: Claim, address: u64) {
        let profile = self.profile_of(claim);
        let measurement = Measurement::begin(&profile.file, Path::Free, Health::Frees);
        self.take_out(profile, claim, address);
        measurement.end(&profile.file);
        self.settle(profile, 0);
    }

    /// Whether frees are to be remembered.
    #[inline]
    pub fn remembers_frees(&self) -> bool {
        self.profile().file.capacity(RegionKind::RecentFrees) != 0
    }

    /// The claimed sample is freed by `caller`, to be remembered; `None` if that cannot be walked from here.
    pub fn complete_free(
        &self,
        thread: &Thread,
        claim: Claim,
        address: u64,
        caller: Option<&Caller>,
    ) {
        let profile = self.profile_of(claim);
        let measurement = Measurement::begin(&profile.file, Path::Free, Health::Frees);
        let (sample, now_ns) = self.take_out(profile, claim, address);
        // Last: a signal handler may leave a walk for good, and the sample is out of the table by then.
        let flags = Kind::Heap.stack_flags();
        let walk = |caller| self.walk(profile, thread, caller, flags, Holder::Free, now_ns)?.stack;
        let free_stack = caller.and_then(walk);
        profile.count(Health::UnknownFreeStacks, free_stack.is_none() as u64);
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
        let is_kept = self.frees.push(&profile.file, &entry);
        profile.count(Health::DroppedFrees, !is_kept as u64);
        measurement.end(&profile.file);
        self.settle(profile, 0);
    }

    /// Takes the claimed sample out of the live table, now.
    #[inline(always)]
    fn take_out(&self, profile: &Profile, claim: Claim, address: u64) -> (live::Sample, u64) {
        let sample = self.sample(profile, claim);
        let now_ns = self.now_ns();
        let lifetime_ns = now_ns.saturating_sub(sample.monotonic_ns);
        count_free(profile.stack(sample.stack), &sample, lifetime_ns);
        self.release(profile, claim);
        page_filter::lower(address);
        if sample.flags != 0 {
            // An extent that was unmapped unseen, whose start an allocator has now.
            self.forget_end(address + sample.size);
        }
        (sample, now_ns)
    }

    /// A normal exit of this process; `status` is known if it is that of `_exit`, which a child may call that shares our memory.
    pub fn finish(&self, status: Option<i32>) {
        let is_child = match sys::process_id() {
            0 => status.is_some(),
            pid => pid != self.pid.load(Relaxed),
        };
        if is_child {
            return;
        }
        let profile = self.profile();
        let header = profile.file.header();
        if ![state::MAKING, state::RECORDING].contains(&header.state.load(Relaxed)) {
            // exit(3) has been here already; _exit now knows nothing better.
            return;
        }
        header.exit_status.store(status.unwrap_or(-1), Relaxed);
        self.publish_stamp();
        header.state.store(state::EXITED, Release);
        if !self.keep.load(Relaxed) {
            profile.file.unlink();
        }
    }
}

/// Adds a sampled allocation to a stack's counters.
pub fn count_allocation(stack: &Stack, size: u64, inverse_probability: f64) {
    stack.sampled_alloc_objects.fetch_add(1, Relaxed);
    stack.sampled_alloc_bytes.fetch_add(size, Relaxed);
    // Nothing more where everything is recorded: each of these is a locked instruction.
    let bytes = size as f64;
    let unsampled = inverse_probability - 1.0;
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
