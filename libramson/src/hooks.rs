//! The slow paths: what happens when a countdown borrows or the page filter says "maybe".
//!
//! While ramson works for a thread, that thread's countdown is parked, so an allocation in a signal handler that interrupts
//! us is not sampled. The bytes that such a handler allocated are taken off afterwards (`parking`).

use crate::arch::hooks::{Call, Found, operators};
use crate::arch::{self, Thread, nr, probes};
use crate::orders::{Interval, Pace};
use crate::parking::{is_busy, parked};
use crate::process;
use crate::record::{Claim, Recorder};
use crate::resolve::LinkMap;
use crate::sampler::{self, BUSY, PARKED};
use crate::{attach, counter, families, inside, loads, resolve, sys, walk};
use core::ffi::CStr;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
use ramson_format::control::LOOK_BYTES_PAUSED;
use ramson_format::{PRELOADED_FAMILY, address_of, live_key};

/// Called by the hooks' stubs: finds the real functions.
pub extern "C" fn bind_all() {
    let is_first = process::read_config();
    arch::hooks::bind(find_real);
    if is_first {
        // A library that comes later and brings operators means its own, whichever others there are, and may be unloaded again.
        resolve::hide(operators::missing_names());
        if let Some(own) = resolve::own_object() {
            walk::hide_data(own);
        }
        if let Some(config) = process::config() {
            inside::begin(config);
        }
    }
}

/// Runs before the constructors of what needs us, which may call an allocator inside the executable. Where the library comes into a program that
/// runs, the loader stands in front of it in the list.
#[used]
#[unsafe(link_section = ".init_array")]
static BIND_AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        let is_ours =
            |object: &&resolve::LinkMap| object.dynamic as usize == resolve::own_dynamic();
        let mut behind = resolve::objects().skip_while(|object| !is_ours(object));
        let came_first = behind.any(|object| resolve::defines(object, c"_r_debug"));
        if came_first && process::config().is_none() {
            bind_all();
        }
    }
    at_start
};

/// The same in a program that runs: there is nothing behind us, and what is in front of us is called.
pub fn bind_to_present() {
    arch::hooks::bind(|name| Some(found(resolve::find_first(name)?)));
}

fn find_real(name: &CStr) -> Option<Found> {
    Some(found(resolve::find_next(name, resolve::own_dynamic())?))
}

/// What the hooks need to know of a function that was found in an object.
pub fn found((address, object): (usize, &'static LinkMap)) -> Found {
    Found {
        address,
        is_of_an_allocator: resolve::defines(object, c"malloc"),
        is_of_jemalloc: resolve::defines(object, c"mallctl"),
    }
}

/// The countdown has borrowed for an allocation of `size`: sets the next one. Returns the interval that the used-up one was drawn with
/// if the allocation is a sample, else 0. `entry` is the stack pointer at the hook's entry.
pub extern "C" fn rearm(size: u64, entry: u64) -> u64 {
    let thread = arch::thread();
    if process::config().is_none() {
        bind_all();
    }
    if process::config().is_none() {
        // Somebody is reading it at this moment: ask again at the next allocation.
        thread.countdown.set(0);
        return 0;
    }
    if is_busy(thread, entry) {
        thread.countdown.set(BUSY);
        return 0;
    }
    process::meet_child(thread);
    let interval = match process::pace() {
        Pace::Sampling(interval) => interval,
        pace => {
            rest(thread, &pace);
            return 0;
        }
    };
    if thread.random.get() == 0 {
        process::initialise_thread(thread);
    }
    if thread.interval_bytes.get() == 0 {
        let first = draw(thread, interval);
        if let Some(rest) = first.checked_sub(size) {
            put(thread, rest, interval);
            return 0;
        }
    } else if let Some(rest) =
        sampler::rest_of_draw(thread.countdown.get(), thread.beyond.replace(0))
    {
        take_next_step(thread, rest);
        return 0;
    }
    let drawn_with = thread.interval_bytes.get();
    let next = draw(thread, interval);
    put(thread, next, interval);
    if size == 0 { 0 } else { drawn_with }
}

fn draw(thread: &Thread, interval: Interval) -> u64 {
    let random = sampler::next_random(thread.random.get());
    thread.random.set(random);
    thread.interval_bytes.set(interval.bytes);
    sampler::draw_countdown(random, interval.bytes)
}

/// No samples now: for good, or until the next look. The thread's draw is given up, because a draw has no memory.
fn rest(thread: &Thread, pace: &Pace) {
    let is_over = matches!(pace, Pace::Off);
    thread.countdown.set(if is_over { PARKED } else { LOOK_BYTES_PAUSED });
    thread.beyond.set(0);
    thread.interval_bytes.set(0);
}

/// Makes `bytes` what is left of the thread's draw.
fn put(thread: &Thread, bytes: u64, interval: Interval) {
    let step = sampler::step_bytes(interval.bytes, interval.configured_bytes);
    thread.countdown.set(bytes.min(step));
    thread.beyond.set(bytes.saturating_sub(step));
}

/// The end of a step, with `rest` of the draw left. The rest has no memory of the part that was used up, so under another
/// interval the rest may as well be drawn anew.
#[cold]
fn take_next_step(thread: &Thread, rest: u64) {
    // Mostly there is nothing to do, and a look after the file would be dearer than the rest.
    if process::started().is_some_and(Recorder::is_window_over)
        && let Some(recorder) = process::recorder()
    {
        recorder.visit();
    }
    let interval = match process::pace() {
        Pace::Sampling(interval) => interval,
        pace => return self::rest(thread, &pace),
    };
    let is_same = thread.interval_bytes.get() == interval.bytes;
    let left = if is_same { rest } else { draw(thread, interval) };
    put(thread, left, interval);
}

/// A block, and the functions that it is of.
#[derive(Clone, Copy)]
pub struct Block {
    pub address: u64,
    /// As in a live key.
    pub family: u8,
}

impl Block {
    fn key(self) -> u64 {
        live_key(self.address, self.family)
    }
}

/// The real function returned `address` for a sampled allocation of `size` bytes. `entry` is the stack pointer at the hook's
/// entry, where the return address lies. Returns `address`.
pub extern "C" fn record(
    address: u64,
    size: u64,
    drawn_with: u64,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    let block = Block { address, family: PRELOADED_FAMILY };
    record_block(block, size, drawn_with, entry, frame_pointer);
    address
}

/// The same of any family.
#[inline(always)]
pub fn record_block(block: Block, size: u64, drawn_with: u64, entry: u64, frame_pointer: u64) {
    let thread = arch::thread();
    let caller = walk::Caller::at_hook(entry, frame_pointer);
    // An allocator that calls the one that it gets its memory from: its own caller has been counted.
    if families::is_in_hooked(caller.lookup_address.0) {
        return;
    }
    if block.address == 0 {
        parked(thread, || {
            if let Some(recorder) = process::recorder_for_sample(thread) {
                process::move_out(recorder, false);
                recorder.record_failure(thread, size, &caller);
            }
        });
    } else if size <= isize::MAX as u64 {
        let (key, caller) = (block.key(), &caller);
        parked(thread, move || take_sample(thread, key, size, drawn_with, caller));
    }
}

/// 1/p of a sample. Samples of one thread are often of one size.
fn weigh(thread: &Thread, size: u64, drawn_with: u64) -> f64 {
    let [known_size, known_interval, weight] = &thread.weighed;
    if (known_size.get(), known_interval.get()) != (size, drawn_with) {
        // A handler may leave for good in between: then it is of no size.
        known_size.set(0);
        compiler_fence(SeqCst);
        weight.set(sampler::inverse_probability(size, drawn_with).to_bits());
        known_interval.set(drawn_with);
        compiler_fence(SeqCst);
        known_size.set(size);
    }
    f64::from_bits(weight.get())
}

// One copy for all hooks, and what it needs is in registers.
#[inline(never)]
fn take_sample(thread: &Thread, key: u64, size: u64, drawn_with: u64, caller: &walk::Caller) {
    if loads::are_new() {
        attach::follow();
    }
    let inverse_probability = weigh(thread, size, drawn_with);
    if let Some(recorder) = process::recorder_for_sample(thread) {
        recorder.count_draw(drawn_with);
        recorder.record(thread, key, size, inverse_probability, caller);
        process::settle(recorder);
        if families::count() != 0 {
            recorder.tell_allocators();
        }
    }
    probes::alloc(address_of(key), size, inverse_probability * size as f64);
}

/// The same for posix_memalign, which returns 0 and stores the address at `result`.
pub extern "C" fn record_posix_memalign(
    status: u64,
    size: u64,
    drawn_with: u64,
    entry: u64,
    frame_pointer: u64,
    result: *const u64,
) -> u64 {
    const ENOMEM: i32 = 12;
    let address = match status as i32 {
        // SAFETY: the real posix_memalign succeeded, so it has just stored through this pointer.
        0 => unsafe { *result },
        ENOMEM => 0,
        _ => return status,
    };
    record(address, size, drawn_with, entry, frame_pointer);
    status
}

/// Memory that may be sampled is about to be freed. Takes its record, if it has one, for `complete_free`; most blocks on a page with a
/// sample have none. Called in the program's floating-point environment.
pub extern "C" fn claim(address: u64) -> Option<Claim> {
    // The preloaded malloc's keys are the addresses.
    process::recorder()?.claim(address)
}

/// The same of any family.
pub fn claim_block(block: Block) -> Option<Claim> {
    process::recorder()?.claim(block.key())
}

/// The sampled block of a claimed record is about to be freed. `entry` and `frame_pointer` as in `history`.
pub extern "C" fn complete_free(claim: Claim, address: u64, entry: u64, frame_pointer: u64) {
    let Some(recorder) = process::started() else { return };
    let thread = arch::thread();
    probes::free(address);
    if !recorder.remembers_frees() {
        return parked(thread, || recorder.complete(claim, address));
    }
    // A handler that interrupted a walk must not begin another: a thread has room for one.
    let caller = (!is_busy(thread, entry)).then(|| walk::Caller::at_hook(entry, frame_pointer));
    parked(thread, || recorder.complete_free(thread, claim, address, caller.as_ref()));
}

/// realloc of a block that may be a sample.
pub extern "C" fn realloc_known(call: &Call) -> u64 {
    reallocate(call, 0)
}

/// The countdown has borrowed for a realloc.
pub extern "C" fn realloc_due(call: &Call) -> u64 {
    reallocate(call, rearm(call.arguments[1], call.entry()))
}

fn reallocate(call: &Call, drawn_with: u64) -> u64 {
    let [address, size, ..] = call.arguments;
    let block = Block { address, family: PRELOADED_FAMILY };
    let claim = claim_for_realloc(block);
    let result = call.real();
    if let Some(claim) = claim {
        settle_realloc(claim, block, [result, size], call.entry(), call.frame_pointer);
    }
    if drawn_with == 0 {
        return result;
    }
    record(result, size, drawn_with, call.entry(), call.frame_pointer)
}

/// Takes the record of a block that is about to be reallocated: afterwards another thread may own the address.
pub fn claim_for_realloc(block: Block) -> Option<Claim> {
    let thread = arch::thread();
    process::recorder().and_then(|held| parked(thread, || held.claim(block.key())))
}

/// The block of a claimed record was reallocated: what was returned, and what was asked for.
pub fn settle_realloc(
    claim: Claim,
    block: Block,
    [result, size]: [u64; 2],
    entry: u64,
    frame_pointer: u64,
) {
    let Some(recorder) = process::recorder() else { return };
    let thread = arch::thread();
    if result == 0 && size != 0 {
        // It failed: the record is as it was.
        parked(thread, || recorder.restore(claim, block.key()));
    } else if result == block.address {
        // Still the same memory: nobody will use it after a free.
        probes::free(block.address);
        parked(thread, || recorder.complete(claim, block.address));
    } else {
        complete_free(claim, block.address, entry, frame_pointer);
    }
}

/// abort(3) is called.
pub extern "C" fn before_abort(entry: u64, frame_pointer: u64) {
    let thread = arch::thread();
    if is_busy(thread, entry) {
        return;
    }
    if let Some(recorder) = process::recorder() {
        let caller = walk::Caller::at_hook(entry, frame_pointer);
        parked(thread, || {
            process::move_out(recorder, false);
            recorder.record_abort(thread, &caller);
        });
    }
}

/// `_exit` was called.
pub extern "C" fn finish_with_status(status: i32) {
    process::finish(Some(status));
}

/// prctl(2) is about to be called.
pub extern "C" fn before_prctl(option: u64, mode: u64, filter: u64) {
    if sys::prctl_confines(option, mode, filter) {
        confine();
    } else if counter::is_forbidden_by(option, mode) {
        counter::forbid();
        if let Some(recorder) = process::recorder() {
            recorder.stop_measuring();
        }
    }
}

/// syscall(2) is about to be called.
pub extern "C" fn before_syscall(number: u64, first: u64, second: u64, third: u64) {
    match number as usize {
        nr::PRCTL => before_prctl(first, second, third),
        nr::SECCOMP if sys::seccomp_confines(first, third) => confine(),
        _ => {}
    }
}

#[cold]
fn confine() {
    if process::config().is_none() {
        bind_all();
    }
    let thread = arch::thread();
    parked(thread, || process::confine(thread));
}
