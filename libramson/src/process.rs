//! The life of ramson in one process: bound at the first allocation, recording from the first sample, in a file as soon as that is made,
//! fresh again in a forked child, finished at exit.

mod copied;

pub use copied::meet_child;

use crate::arch::{self, Thread};
use crate::config::Config;
use crate::orders::{Interval, Pace};
use crate::page_filter::{FILTER_PAGES, PAGE_FILTER};
use crate::record::{NurseryMemory, Profile, Recorder};
use crate::sys::{self, Status, permit};
use crate::{counter, orders, resolve, room, sampler, startup};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use ramson_format::control::Request;
use ramson_format::{Health, MAGIC, flags};

/// Start and end of the profile's mapping, once it is mapped. munmap looks here. A forked child begins with its parent's.
pub static PROFILE_RANGE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// For slow paths to end, those of threads that wait for a processor included.
const GRACE_NS: u64 = 20_000_000;

const NEW: u32 = 0;
const RECORDING: u32 = 1;
const OFF: u32 = 2;

/// State that must not outlive a fork: the kernel gives the child zeroed pages in its place, which is the state of a process that has not been
/// sampled yet.
#[repr(C, align(4096))]
struct PerProcess {
    /// First: what lies before is inherited, and so in another mapping.
    nursery: NurseryMemory,
    state: AtomicU32,
    /// See `permit::count_calls_in`.
    calls: AtomicU32,
    recorder: Recorder,
}

// SAFETY: integers; all zero is the initial state.
static PER_PROCESS: PerProcess = unsafe { core::mem::zeroed() };

/// State that a forked child inherits.
struct Inherited {
    /// 0 not read yet, 2 ready (1: being read).
    config_state: AtomicU32,
    config: UnsafeCell<MaybeUninit<Config>>,
    threads: AtomicU64,
    /// The process that left the nursery last, this one or an ancestor, …
    started_pid: AtomicU32,
    /// … and the address of its profile. A child writes there only that it exists.
    profile: AtomicU64,
    /// The first thread of the process that called exec, by the C library's record; 0 if that does not tell.
    image_pid: AtomicU32,
    /// The kernel zeroes `PER_PROCESS` and the page filter in forked children.
    is_protected: AtomicBool,
    is_unlocking: AtomicBool,
}

// SAFETY: `config` is written once, by whoever moves `config_state` from 0 to 1, and read only after it is 2.
unsafe impl Sync for Inherited {}

static INHERITED: Inherited = Inherited {
    config_state: AtomicU32::new(0),
    config: UnsafeCell::new(MaybeUninit::uninit()),
    threads: AtomicU64::new(0),
    started_pid: AtomicU32::new(0),
    profile: AtomicU64::new(0),
    image_pid: AtomicU32::new(0),
    is_protected: AtomicBool::new(false),
    is_unlocking: AtomicBool::new(false),
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
    permit::count_calls_in(&PER_PROCESS.calls);
    // SAFETY: at the first allocation, which comes before main. This thread alone moved the state from 0 to 1.
    let config = unsafe {
        let config = (*INHERITED.config.get()).write(Config::default());
        match resolve::initial_stack() {
            Some(stack) => config.take_from_initial_stack(stack),
            // A C library that we do not know: off.
            None => config.interval_bytes = None,
        }
        &*config
    };
    startup::learn(config.program_headers, resolve::objects().last());
    INHERITED.image_pid.store(startup::recorded_thread_id(), Relaxed);
    INHERITED.config_state.store(2, Release);
    true
}

/// Takes the settings from outside: the process runs, and the library has just come into it. No object is unloaded meanwhile. False: it
/// has a C library that we do not know.
#[cold]
#[inline(never)]
pub fn take_config(request: &Request, directory: &[u8]) -> bool {
    if INHERITED.config_state.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        return config().is_some();
    }
    permit::count_calls_in(&PER_PROCESS.calls);
    let stack = resolve::initial_stack();
    // SAFETY: this thread alone moved the state from 0 to 1, and no hook is in place that could read it.
    let config = unsafe { (*INHERITED.config.get()).write(Config::default()) };
    config.take_request(request, directory);
    config.main_stack_high = stack.map_or(0, |stack| stack as u64);
    if stack.is_none() {
        config.interval_bytes = None;
    }
    // The loader itself came with the program, as did what is in front of it in the list.
    let loader = resolve::objects().find(|object| resolve::defines(object, c"_r_debug"));
    startup::learn(config.program_headers, loader);
    INHERITED.image_pid.store(request.pid, Relaxed);
    INHERITED.config_state.store(2, Release);
    stack.is_some()
}

/// How this thread is to go on.
#[inline]
pub fn pace() -> Pace {
    let Some(interval_bytes) = config().and_then(|config| config.interval_bytes) else {
        return Pace::Off;
    };
    let state = PER_PROCESS.state.load(Acquire);
    if state == OFF {
        return Pace::Off;
    }
    let configured_bytes = match orders::are_given() {
        false => Some(interval_bytes),
        true => ordered_interval(state, interval_bytes),
    };
    let Some(configured_bytes) = configured_bytes else { return Pace::Paused };
    let governed_bytes = if state == RECORDING { PER_PROCESS.recorder.interval_bytes() } else { 0 };
    Pace::Sampling(Interval { configured_bytes, bytes: governed_bytes.max(configured_bytes) })
}

/// The interval by orders, after taking new ones; `interval_bytes` if none hold. `None`: no samples are taken by them.
#[inline(never)]
fn ordered_interval(state: u32, interval_bytes: u64) -> Option<u64> {
    if orders::are_new()
        && let Some(orders) = orders::take()
        && state == RECORDING
    {
        PER_PROCESS.recorder.obey(&orders);
    }
    let Some(orders) = orders::in_force() else { return Some(interval_bytes) };
    (!orders::is_over(&orders, &PER_PROCESS.recorder)).then_some(orders.interval_bytes)
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
    Some(&PER_PROCESS.recorder)
}

/// The recorder of this process, if it has been sampled already.
pub fn recorder() -> Option<&'static Recorder> {
    let recorder = started()?;
    if recorder.profile().file.is_whole() { Some(recorder) } else { stop_without_file(recorder) }
}

#[cold]
fn stop_without_file(recorder: &Recorder) -> Option<&'static Recorder> {
    PER_PROCESS.state.store(OFF, Release);
    recorder.profile().file.leave();
    None
}

/// The recorder of this process; begins at the first sample.
pub fn recorder_for_sample(thread: &Thread) -> Option<&'static Recorder> {
    recorder().or_else(|| begin(thread))
}

/// Begins to record. Threads that come at the same time do so, too: none waits for another.
#[cold]
fn begin(thread: &Thread) -> Option<&'static Recorder> {
    if PER_PROCESS.state.load(Acquire) == OFF {
        return None;
    }
    let config = config()?;
    // A child that shares its parent's memory would record into its parent's profile, under its own process ID.
    if shares_memory(thread) {
        return None;
    }
    // No system call is allowed before the first look. A forked child inherits what was found, and looks again before it makes a file.
    let is_protected = INHERITED.is_protected.load(Relaxed);
    let status = if is_protected && permit::is_full() { None } else { Status::read() };
    if !permit::is_full() {
        sys::look_for_filters(status.as_ref(), config.tried_filters);
        if shares_memory(thread) {
            return None;
        }
    }
    if !is_protected && status.is_some_and(|status| status.locked > 0) {
        if INHERITED.is_unlocking.swap(true, Relaxed) {
            // Another thread is about to give back what would be recorded now.
            return None;
        }
        // All of it is in memory, of which little is used.
        sys::unlock_zeroes((&raw const PAGE_FILTER).cast(), FILTER_PAGES);
        sys::unlock_zeroes((&raw const PER_PROCESS).cast(), size_of::<PerProcess>());
    }
    // If no advice may be given, nothing is shared: the profile is in private memory, of which a child has a copy.
    if !is_protected_from_fork() && permit::is_full() {
        PER_PROCESS.state.store(OFF, Release);
        return None;
    }
    let pid = sys::process_id();
    let is_forked = match INHERITED.image_pid.load(Relaxed) {
        // No system call is allowed: the parent's state was copied, and this is no new beginning.
        _ if pid == 0 => false,
        0 => ![0, pid].contains(&INHERITED.started_pid.load(Relaxed)),
        image_pid => image_pid != pid,
    };
    // In a forked child this is still the parent's. A thread that only maps memory may have none yet.
    if thread.random.get() != 0 {
        thread.random.set(sampler::seed(thread.random.get() ^ counter::cycles()));
    }
    let may_stay = is_forked && config.recent_frees == 0;
    let is_first = PER_PROCESS.recorder.begin(&PER_PROCESS.nursery, config, pid, may_stay);
    if is_first && is_forked {
        count_in_ancestor(Health::Children, pid);
    }
    if config.is_attached && !is_forked {
        PER_PROCESS.recorder.profile().file.header().flags.fetch_or(flags::ATTACHED, Relaxed);
    }
    if let Some(orders) = orders::in_force() {
        PER_PROCESS.recorder.obey(&orders);
    }
    let _ = PER_PROCESS.state.compare_exchange(NEW, RECORDING, Release, Relaxed);
    recorder()
}

/// After a sample: leaves the nursery, if it is time to.
#[inline]
pub fn settle(recorder: &Recorder) {
    if recorder.is_to_move() {
        move_out(recorder, false);
    }
}

/// Leaves the nursery, if no other thread does. `is_last_chance`: no system call can be made later.
#[cold]
pub fn move_out(recorder: &Recorder, is_last_chance: bool) {
    let begin_cycles = counter::cycles();
    let Some(config) = config().filter(|_| recorder.begins_to_move()) else { return };
    let status = Status::read();
    sys::look_for_filters(status.as_ref(), config.tried_filters);
    // A file that could not be removed at exit any more is made only if it is to stay.
    let may_be_file = permit::is_full() && (config.keep || !is_last_chance);
    let room_bytes = room::for_profile(config.file_bytes, status.as_ref());
    let Some(profile) = recorder.move_out(config, may_be_file, room_bytes) else {
        PER_PROCESS.state.store(OFF, Release);
        return;
    };
    let pid = sys::process_id();
    if INHERITED.started_pid.swap(pid, Relaxed) != 0 {
        count_in_ancestor(Health::ChildrenWithFile, pid);
    }
    INHERITED.profile.store(core::ptr::from_ref(profile) as u64, Relaxed);
    // Hazard, never seen: another thread unmaps the profile, or maps over it, before the range is stored here. The other thread's call does
    // not know of the profile yet: the next sample crashes, or writes into what is mapped there now.
    let range = profile.file.mapped();
    PROFILE_RANGE[0].store(range.start, Relaxed);
    PROFILE_RANGE[1].store(range.end, Relaxed);
    recorder.charge(begin_cycles);
}

fn inherited_profile() -> Option<&'static Profile> {
    // SAFETY: 0, or a profile that is never given back, in memory that a child has a copy of.
    unsafe { (INHERITED.profile.load(Relaxed) as *const Profile).as_ref() }
}

/// Counts this process, `pid`, in the profile of the one that it was forked from, if others see what is stored there. The program may have put
/// memory of its own there by a system call that nobody can hook, so the kernel is asked for the magic number first.
#[cold]
fn count_in_ancestor(counter: Health, pid: u32) {
    let Some(profile) = inherited_profile().filter(|profile| !profile.file.is_private()) else {
        return;
    };
    let header = profile.file.header();
    let mut magic = [0; MAGIC.len()];
    let range = [(&raw const header.magic) as usize, magic.len()];
    if sys::read_own_memory(pid, &[range], &mut magic) == magic.len() && magic == MAGIC {
        sys::add_one(&header.health[counter as usize]);
    }
}

/// The program is about to take away what is mapped there.
pub fn forget_profile_in(range: &Range<u64>) {
    let file = inherited_profile().map(|profile| profile.file.mapped()).unwrap_or_default();
    if file.start < range.end && range.start < file.end {
        INHERITED.profile.store(0, Relaxed);
    }
}

/// Whether this may be a child in its parent's memory that finds nothing recorded there: by the C library's record another thread owns this
/// one's state, as after vfork or clone with CLONE_VM. The child of a bare clone or fork system call looks alike, though it has memory of its
/// own: that is known where its parent was recorded and the thread that called was its first.
#[cold]
fn shares_memory(thread: &Thread) -> bool {
    let id = sys::thread_id();
    let recorded = startup::recorded_thread_id();
    // In a forked child it is still the parent's.
    thread.tid.set(id);
    let is_another_s = id != 0 && recorded != 0 && id != recorded;
    is_another_s && recorded != INHERITED.started_pid.load(Relaxed)
}

/// Has the kernel zero what belongs to this process alone in forked children, and in theirs. False: it refuses, as before Linux 4.14.
fn is_protected_from_fork() -> bool {
    if !INHERITED.is_protected.load(Relaxed) {
        INHERITED.is_protected.store(protect_from_fork(), Relaxed);
    }
    INHERITED.is_protected.load(Relaxed)
}

fn protect_from_fork() -> bool {
    let filter = (&raw const PAGE_FILTER).cast::<u8>();
    // Advice only: without it a core dump is larger, and a huge page of filter may be resident.
    let _ = sys::advise(filter, FILTER_PAGES, sys::MADV_NOHUGEPAGE);
    let _ = sys::advise(filter, FILTER_PAGES, sys::MADV_DONTDUMP);
    let own = (&raw const PER_PROCESS).cast::<u8>();
    for advice in [sys::MADV_NOHUGEPAGE, sys::MADV_DONTDUMP, sys::MADV_RANDOM] {
        // The last one sets it apart from the page filter, should that lie beside it: readers look at starts of mappings.
        let _ = sys::advise(own, size_of::<PerProcess>(), advice);
    }
    sys::advise(own, size_of::<PerProcess>(), sys::MADV_WIPEONFORK).is_ok()
        && sys::advise(filter, FILTER_PAGES, sys::MADV_WIPEONFORK).is_ok()
}

/// The program is about to have a seccomp filter installed: makes and reserves what needs system calls, and makes no more.
#[cold]
pub fn confine(thread: &Thread) {
    if !matches!(pace(), Pace::Off)
        && let Some(recorder) = recorder_for_sample(thread)
    {
        move_out(recorder, true);
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
/// At exit(3) the program's floating-point traps are not masked: nothing here computes with floats.
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
