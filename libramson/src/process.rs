//! The life of ramson in one process: bound at the first allocation, recording from the first sample, fresh again in a
//! forked child, finished at exit.

use crate::arch::{self, Thread};
use crate::config::Config;
use crate::page_filter::{FILTER_PAGES, PAGE_FILTER};
use crate::record::{self, Recorder};
use crate::sys::{self, permit};
use crate::{counter, resolve, sampler, startup};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use ramson_format::{KINDS, Kind, Stack};

/// Where the profile is mapped, once it is: start and end. munmap looks here. A forked child begins
/// with its parent's.
pub static PROFILE_RANGE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// For slow paths to end, those of threads that wait for a processor included.
const GRACE_NS: u64 = 20_000_000;

const NEW: u32 = 0;
const STARTING: u32 = 1;
const RECORDING: u32 = 2;
const OFF: u32 = 3;

/// What must not outlive a fork: the kernel gives the child zeroed pages in its place, which is the state of a process
/// that has not been sampled yet.
#[repr(C, align(4096))]
struct PerProcess {
    state: AtomicU32,
    recorder: AtomicPtr<Recorder>,
    /// Sums over the samples of each kind that came while another thread was still making the file.
    early: [Stack; KINDS.len()],
}

static PER_PROCESS: PerProcess = PerProcess {
    state: AtomicU32::new(NEW),
    recorder: AtomicPtr::new(core::ptr::null_mut()),
    early: [record::EMPTY_STACK; KINDS.len()],
};

/// What a forked child inherits.
struct Inherited {
    /// 0 not read yet, 2 ready (1: being read).
    config_state: AtomicU32,
    config: UnsafeCell<MaybeUninit<Config>>,
    threads: AtomicU64,
    /// The process that began to record last, this one or an ancestor.
    started_pid: AtomicU32,
}

// SAFETY: `config` is written once, by whoever moves `config_state` from 0 to 1, and read only after it is 2.
unsafe impl Sync for Inherited {}

static INHERITED: Inherited = Inherited {
    config_state: AtomicU32::new(0),
    config: UnsafeCell::new(MaybeUninit::uninit()),
    threads: AtomicU64::new(0),
    started_pid: AtomicU32::new(0),
};

/// The settings, once `read_config` has run.
pub fn config() -> Option<&'static Config> {
    // Pairs with the release in `read_config`.
    // SAFETY: state 2 says that it is initialised and stays as it is.
    (INHERITED.config_state.load(Acquire) == 2)
        .then(|| unsafe { (*INHERITED.config.get()).assume_init_ref() })
}

/// Reads the settings, if nobody has. Whether this is the first call, before the program's own code.
// Its settings are gone from the program's stack before the hooks are bound.
#[inline(never)]
pub fn read_config() -> bool {
    if INHERITED.config_state.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        return false;
    }
    // SAFETY: at the first allocation, which comes before main. This thread alone moved the state from 0 to 1.
    unsafe {
        let config = (*INHERITED.config.get()).write(Config::default());
        match resolve::initial_stack() {
            Some(stack) => config.take_from_initial_stack(stack),
            // A C library that we do not know: off.
            None => config.interval_bytes = None,
        }
    }
    startup::learn();
    INHERITED.config_state.store(2, Release);
    true
}

/// The sampling interval: as configured, and as in force now.
#[derive(Clone, Copy)]
pub struct Interval {
    pub configured_bytes: u64,
    pub bytes: u64,
}

/// The interval that this thread should draw with, or `None` for off.
pub fn interval() -> Option<Interval> {
    let configured_bytes = config()?.interval_bytes?;
    let governed_bytes = match PER_PROCESS.state.load(Acquire) {
        OFF => return None,
        RECORDING => started()?.interval_bytes(),
        _ => 0,
    };
    Some(Interval { configured_bytes, bytes: governed_bytes.max(configured_bytes) })
}

/// Gives a thread its random state.
pub fn initialise_thread(thread: &Thread) {
    let number = INHERITED.threads.fetch_add(1, Relaxed);
    let entropy = config().map_or(0, |config| config.entropy);
    let mixed = sampler::seed(entropy ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    thread.random.set(sampler::seed(mixed ^ counter::cycles()));
}

/// The recorder of this process, if it has been sampled already, for what does not touch the profile file.
pub fn started() -> Option<&'static Recorder> {
    if PER_PROCESS.state.load(Acquire) != RECORDING {
        return None;
    }
    // SAFETY: stored before the state became RECORDING, and never freed; a recorder that were replaced or unmapped would break it.
    unsafe { PER_PROCESS.recorder.load(Relaxed).as_ref() }
}

/// The recorder of this process, if it has been sampled already.
pub fn recorder() -> Option<&'static Recorder> {
    let recorder = started()?;
    if recorder.file.is_whole() { Some(recorder) } else { stop_without_file(recorder) }
}

#[cold]
fn stop_without_file(recorder: &Recorder) -> Option<&'static Recorder> {
    PER_PROCESS.state.store(OFF, Release);
    recorder.file.leave();
    None
}

/// The recorder of this process; makes it, and the profile file, at the first sample.
pub fn recorder_for_sample(
    thread: &Thread,
    kind: Kind,
    size: u64,
    inverse_probability: f64,
) -> Option<&'static Recorder> {
    if let Some(recorder) = recorder() {
        return Some(recorder);
    }
    match begin(thread, false) {
        Ok(recorder) => recorder,
        Err(STARTING) => {
            let early = &PER_PROCESS.early[kind as usize];
            record::count_allocation(early, size, inverse_probability);
            // If the file has been made meanwhile, nobody else will look at these sums again.
            if let Some(recorder) = recorder() {
                recorder.take_over(kind, early);
            }
            None
        }
        Err(_) => None,
    }
}

/// The recorder of this process for an allocation that failed; makes it if nobody has begun to.
pub fn recorder_for_failure(thread: &Thread) -> Option<&'static Recorder> {
    recorder().or_else(|| begin(thread, false).ok()?)
}

/// Makes the recorder if nobody has begun to; else the state.
fn begin(thread: &Thread, is_last_chance: bool) -> Result<Option<&'static Recorder>, u32> {
    let begun = PER_PROCESS.state.compare_exchange(NEW, STARTING, Acquire, Relaxed);
    begun.map(|_| start(thread, is_last_chance))
}

#[cold]
fn start(thread: &Thread, is_last_chance: bool) -> Option<&'static Recorder> {
    let begin_cycles = counter::cycles();
    let config = config()?;
    // Once more after the look: before the first one nothing may be asked.
    let is_child = shares_memory() || {
        sys::look_for_filters(config.tried_filters);
        shares_memory()
    };
    if is_child {
        // What it made would be its parent's, under its own name.
        PER_PROCESS.state.store(NEW, Release);
        return None;
    }
    INHERITED.started_pid.store(sys::process_id(), Relaxed);
    // Where no advice may be given, nothing is shared: the profile is in private memory, of which a child has a copy.
    if !protect_from_fork() && permit::is_full() {
        PER_PROCESS.state.store(OFF, Release);
        return None;
    }
    // In a forked child these are still the parent's. A thread that only maps memory may have no random state yet.
    thread.tid.set(0);
    if thread.random.get() != 0 {
        thread.random.set(sampler::seed(thread.random.get() ^ counter::cycles()));
    }
    // A file that could not be removed at exit any more is made only if it is to stay.
    let may_be_file = permit::is_full() && (config.keep || !is_last_chance);
    let Some(recorder) = Recorder::create(config, may_be_file) else {
        PER_PROCESS.state.store(OFF, Release);
        return None;
    };
    let range = recorder.file.mapped();
    PROFILE_RANGE[0].store(range.start, Relaxed);
    PROFILE_RANGE[1].store(range.end, Relaxed);
    PER_PROCESS.recorder.store(core::ptr::from_ref(recorder).cast_mut(), Relaxed);
    PER_PROCESS.state.store(RECORDING, Release);
    KINDS.iter().zip(&PER_PROCESS.early).for_each(|(&kind, early)| recorder.take_over(kind, early));
    recorder.charge(begin_cycles);
    Some(recorder)
}

/// Whether this may be a child in its parent's memory that finds nothing recorded there: by the C library's record another thread owns this
/// one's state, as after vfork or clone with CLONE_VM. The child of a bare clone or fork system call looks alike, though it has memory of its
/// own: that is known where its parent was recorded and the thread that called was its first.
#[cold]
fn shares_memory() -> bool {
    let (id, recorded) = (sys::thread_id(), startup::recorded_thread_id());
    let is_another_s = id != 0 && recorded != 0 && id != recorded;
    is_another_s && recorded != INHERITED.started_pid.load(Relaxed)
}

/// Has the kernel zero what belongs to this process alone in forked children. False: it refuses, as before Linux 4.14.
fn protect_from_fork() -> bool {
    let filter = (&raw const PAGE_FILTER).cast::<u8>();
    // Advice only: without it a core dump is larger, and a huge page of filter may be resident.
    let _ = sys::advise(filter, FILTER_PAGES, sys::MADV_NOHUGEPAGE);
    let _ = sys::advise(filter, FILTER_PAGES, sys::MADV_DONTDUMP);
    let own = (&raw const PER_PROCESS).cast::<u8>();
    sys::advise(own, size_of::<PerProcess>(), sys::MADV_WIPEONFORK).is_ok()
        && sys::advise(filter, FILTER_PAGES, sys::MADV_WIPEONFORK).is_ok()
}

/// The program is about to have a seccomp filter installed: makes and reserves what needs system calls, and makes no more.
#[cold]
pub fn confine(thread: &Thread) {
    if interval().is_some()
        && let Some(recorder) = recorder().or_else(|| begin(thread, true).ok()?)
    {
        recorder.prepare_for_confinement(thread, arch::stack_pointer());
    }
    permit::give_up();
}

/// The program is about to take the file's mapping away. Threads that are in a slow path are given time to leave it; nobody else enters.
#[cold]
pub fn end_recording(recorder: &Recorder) {
    PER_PROCESS.state.store(OFF, Release);
    recorder.finish(None);
    sys::pause(GRACE_NS);
}

/// A normal exit; `status` is that of `_exit`. A child that shares our memory (vfork) is not us.
pub fn finish(status: Option<i32>) {
    if let Some(recorder) = recorder() {
        recorder.finish(status);
    }
}

/// Runs when the program calls exit(3) or returns from main.
#[cfg(not(any(test, fuzzing)))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH_AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        finish(None);
    }
    at_exit
};
