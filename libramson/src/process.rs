//! The life of ramson in one process: bound at the first allocation, recording from the first sample, fresh again in a
//! forked child, finished at exit.

use crate::arch::{self, Thread};
use crate::config::Config;
use crate::record::{self, Recorder};
use crate::resolve::LinkMap;
use crate::{resolve, sampler, sys};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::*};
use ramson_format::Stack;

/// Pages that the page filter tells apart: address bits 12–35.
pub const FILTER_PAGES: usize = 1 << 24;

/// One byte per page of address space: how many live samples lie there (255: that many or more, for good). `free` looks here.
#[repr(C, align(4096))]
pub struct PageFilter(pub [AtomicU8; FILTER_PAGES]);

/// See `PageFilter`.
pub static PAGE_FILTER: PageFilter = PageFilter([const { AtomicU8::new(0) }; FILTER_PAGES]);

const NEW: u32 = 0;
const STARTING: u32 = 1;
const RECORDING: u32 = 2;
const OFF: u32 = 3;

/// What must not outlive a fork: the kernel gives the child zeroed pages in its place, which is the state of a process
/// that has not been sampled yet.
#[repr(C, align(4096))]
struct PerProcess {
    state: AtomicU32,
    /// 0 if the kernel zeroes this page in a forked child; else this process's id, to be compared at every sample.
    pid_to_compare: AtomicU32,
    recorder: AtomicPtr<Recorder>,
    /// Sums over the samples that came while another thread was still making the file.
    early: Stack,
}

static PER_PROCESS: PerProcess = PerProcess {
    state: AtomicU32::new(NEW),
    pid_to_compare: AtomicU32::new(0),
    recorder: AtomicPtr::new(core::ptr::null_mut()),
    early: record::EMPTY_STACK,
};

/// What a forked child inherits.
struct Inherited {
    /// 0 not read yet, 2 ready (1: being read).
    config_state: AtomicU32,
    config: UnsafeCell<MaybeUninit<Config>>,
    threads: AtomicU64,
}

// SAFETY: `config` is written once, by whoever moves `config_state` from 0 to 1, and read only after it is 2.
unsafe impl Sync for Inherited {}

static INHERITED: Inherited = Inherited {
    config_state: AtomicU32::new(0),
    config: UnsafeCell::new(MaybeUninit::uninit()),
    threads: AtomicU64::new(0),
};

/// The settings, once `read_config` has run.
pub fn config() -> Option<&'static Config> {
    // Pairs with the release in `read_config`.
    // SAFETY: state 2 says that it is initialised and stays as it is.
    (INHERITED.config_state.load(Acquire) == 2)
        .then(|| unsafe { (*INHERITED.config.get()).assume_init_ref() })
}

/// Reads the settings, if nobody has.
pub fn read_config() {
    if INHERITED.config_state.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        return;
    }
    // SAFETY: at the first allocation, which comes before main. This thread alone moved the state from 0 to 1.
    unsafe {
        let config = resolve::initial_stack().map(|stack| Config::from_initial_stack(stack));
        // A C library that we do not know: off.
        let off = || Config { interval_bytes: None, ..Config::default() };
        (*INHERITED.config.get()).write(config.unwrap_or_else(off));
    }
    if let Some(last) = resolve::objects().last() {
        LAST_OBJECT_AT_START.store(core::ptr::from_ref(last).cast_mut(), Relaxed);
    }
    INHERITED.config_state.store(2, Release);
}

/// The interval that this thread should draw with, or `None` for off.
pub fn interval_bytes() -> Option<u64> {
    if PER_PROCESS.state.load(Relaxed) == OFF {
        return None;
    }
    config()?.interval_bytes
}

/// Gives a thread its random state.
pub fn initialise_thread(thread: &Thread) {
    let number = INHERITED.threads.fetch_add(1, Relaxed);
    let entropy = config().map_or(0, |config| config.entropy);
    let mixed = sampler::seed(entropy ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    thread.random.set(sampler::seed(mixed ^ arch::cycles()));
}

/// The recorder of this process, if it has been sampled already.
pub fn recorder() -> Option<&'static Recorder> {
    let pid = PER_PROCESS.pid_to_compare.load(Relaxed);
    if pid != 0 && pid != sys::process_id() {
        become_new();
    }
    if PER_PROCESS.state.load(Acquire) != RECORDING {
        return None;
    }
    // SAFETY: stored before the state became RECORDING, and never freed.
    unsafe { PER_PROCESS.recorder.load(Relaxed).as_ref() }
}

/// The recorder of this process; makes it, and the profile file, at the first sample.
pub fn recorder_for_sample(
    thread: &Thread,
    size: u64,
    inverse_probability: f64,
) -> Option<&'static Recorder> {
    if let Some(recorder) = recorder() {
        return Some(recorder);
    }
    match PER_PROCESS.state.compare_exchange(NEW, STARTING, Acquire, Relaxed) {
        Ok(_) => start(thread),
        Err(STARTING) => {
            record::count_allocation(&PER_PROCESS.early, size, inverse_probability);
            // If the file has been made meanwhile, nobody else will look at these sums again.
            if let Some(recorder) = recorder() {
                recorder.take_over(&PER_PROCESS.early);
            }
            None
        }
        Err(_) => None,
    }
}

#[cold]
fn start(thread: &Thread) -> Option<&'static Recorder> {
    let config = config()?;
    protect_from_fork();
    // In a forked child these are still the parent's.
    thread.tid.set(0);
    thread.random.set(sampler::seed(thread.random.get() ^ arch::cycles()));
    match Recorder::create(config) {
        Some(recorder) => {
            let pointer = core::ptr::from_ref(recorder).cast_mut();
            PER_PROCESS.recorder.store(pointer, Relaxed);
            PER_PROCESS.state.store(RECORDING, Release);
            recorder.take_over(&PER_PROCESS.early);
            Some(recorder)
        }
        None => {
            PER_PROCESS.state.store(OFF, Release);
            None
        }
    }
}

/// Has the kernel zero what belongs to this process alone in forked children.
fn protect_from_fork() {
    let filter = (&raw const PAGE_FILTER).cast::<u8>();
    // Advice only: without it a core dump is larger, and a huge page of filter may be resident.
    let _ = sys::advise(filter, FILTER_PAGES, sys::MADV_NOHUGEPAGE);
    let _ = sys::advise(filter, FILTER_PAGES, sys::MADV_DONTDUMP);
    let own = (&raw const PER_PROCESS).cast::<u8>();
    let is_protected = sys::advise(own, size_of::<PerProcess>(), sys::MADV_WIPEONFORK).is_ok()
        && sys::advise(filter, FILTER_PAGES, sys::MADV_WIPEONFORK).is_ok();
    if !is_protected {
        PER_PROCESS.pid_to_compare.store(sys::process_id(), Relaxed);
    }
}

/// In a forked child whose kernel did not zero the pages (before Linux 4.14). The filter's stale bytes cost time only.
#[cold]
fn become_new() {
    PER_PROCESS.pid_to_compare.store(0, Relaxed);
    PER_PROCESS.recorder.store(core::ptr::null_mut(), Relaxed);
    PER_PROCESS.state.store(NEW, Release);
}

/// A normal exit. `status` is −1 where it is not known. A child that shares our memory (vfork) is not us.
pub fn finish(status: i32) {
    if let Some(recorder) = recorder() {
        recorder.finish(status);
    }
}

#[cfg(not(test))]
extern "C" fn finish_at_exit() {
    finish(-1);
}

/// Runs when the program calls exit(3) or returns from main.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH_AT_EXIT: extern "C" fn() = finish_at_exit;

/// The last object in the loader's list at the first allocation.
static LAST_OBJECT_AT_START: AtomicPtr<LinkMap> = AtomicPtr::new(core::ptr::null_mut());

/// See `Modules`.
pub fn last_object_at_start() -> *const LinkMap {
    LAST_OBJECT_AT_START.load(Relaxed)
}
