//! The slow paths: what happens when a countdown borrows or the page filter says "maybe".
//!
//! While ramson works for a thread, that thread's countdown is parked, so an allocation in a signal handler that interrupts
//! us is not sampled. What such a handler allocated is taken off afterwards.

use crate::arch::hooks::Found;
use crate::arch::{self, Thread};
use crate::process;
use crate::record::Claim;
use crate::sampler::{self, PARKED};
use crate::{resolve, walk};

/// Called by the hooks' stubs: finds the real functions.
pub extern "C" fn bind_all() {
    process::read_config();
    arch::hooks::bind(find_real);
}

/// Called where a C++ operator is used that was not there before.
pub extern "C" fn bind_operators() {
    bind_all();
    arch::hooks::operators::bind_missing(find_real);
}

fn find_real(name: &core::ffi::CStr) -> Option<Found> {
    let (address, object) = resolve::find_next(name, resolve::own_dynamic())?;
    Some(Found {
        address,
        is_of_an_allocator: resolve::defines(object, c"malloc"),
        is_of_jemalloc: resolve::defines(object, c"mallctl"),
    })
}

/// The countdown has borrowed for an allocation of `size`: sets the next one. Returns the bits of 1/p if the allocation
/// is a sample, else 0.
pub extern "C" fn rearm(size: u64) -> u64 {
    let thread = arch::thread();
    if process::config().is_none() {
        bind_all();
    }
    if process::config().is_none() {
        // Somebody is reading it at this moment: ask again at the next allocation.
        thread.countdown.set(0);
        return 0;
    }
    let Some(interval_bytes) = process::interval_bytes() else {
        thread.countdown.set(PARKED);
        return 0;
    };
    if thread.random.get() == 0 {
        process::initialise_thread(thread);
        let first = draw(thread, interval_bytes);
        if size <= first {
            thread.countdown.set(first - size);
            return 0;
        }
    }
    let drawn_with = thread.interval_bytes.get();
    thread.countdown.set(draw(thread, interval_bytes));
    if size == 0 || size > isize::MAX as u64 {
        return 0;
    }
    sampler::inverse_probability(size, drawn_with).to_bits()
}

fn draw(thread: &Thread, interval_bytes: u64) -> u64 {
    let random = sampler::next_random(thread.random.get());
    thread.random.set(random);
    thread.interval_bytes.set(interval_bytes);
    sampler::draw_countdown(random, interval_bytes)
}

/// Runs `work` with the countdown parked.
fn parked<R>(thread: &Thread, work: impl FnOnce() -> R) -> R {
    let countdown = thread.countdown.replace(PARKED);
    let result = work();
    let meanwhile = PARKED.wrapping_sub(thread.countdown.get());
    thread.countdown.set(countdown.saturating_sub(meanwhile));
    result
}

/// The real function returned `address` for a sampled allocation of `size` bytes. `entry` is the stack pointer at the hook's
/// entry, where the return address lies. Returns `address`.
pub extern "C" fn record(
    address: u64,
    size: u64,
    inverse_probability_bits: u64,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    if address != 0 {
        let thread = arch::thread();
        parked(thread, || {
            let inverse_probability = f64::from_bits(inverse_probability_bits);
            if let Some(recorder) = process::recorder_for_sample(thread, size, inverse_probability)
            {
                let caller = walk::Caller::at_hook(entry, frame_pointer);
                recorder.record(thread, address, size, inverse_probability, caller);
            }
        });
    }
    address
}

/// The same for posix_memalign, which returns 0 and stores the address at `result`.
pub extern "C" fn record_posix_memalign(
    status: u64,
    size: u64,
    inverse_probability_bits: u64,
    entry: u64,
    frame_pointer: u64,
    result: *const u64,
) -> u64 {
    if status as i32 == 0 {
        // SAFETY: the real posix_memalign succeeded, so it has just stored through this pointer.
        let address = unsafe { *result };
        record(address, size, inverse_probability_bits, entry, frame_pointer);
    }
    status
}

/// Memory that may be sampled is about to be freed.
pub extern "C" fn forget(address: u64) {
    // Most blocks on a page with a sample are none themselves: look before anything else.
    if let Some(recorder) = process::recorder()
        && let Some(claim) = recorder.claim(address)
    {
        parked(arch::thread(), || recorder.complete(claim, address));
    }
}

/// What a slow realloc keeps on the program's stack around the real call.
#[repr(C)]
pub struct Reallocation {
    /// The record of the old block while the real function runs: 0 or its slot + 1.
    claim: u64,
    inverse_probability_bits: u64,
    sample_is_due: u64,
    size: u64,
    address: u64,
}

/// Before the real realloc: takes hold of the old block's record, since afterwards another thread may own the address.
pub extern "C" fn realloc_begin(call: &mut Reallocation) {
    call.inverse_probability_bits =
        if call.sample_is_due as u32 == 0 { 0 } else { rearm(call.size) };
    if let Some(recorder) = process::recorder() {
        let thread = arch::thread();
        call.claim = parked(thread, || recorder.claim(call.address)).map_or(0, Claim::into_word);
    }
}

/// After it: a failure leaves the record as it was; otherwise the old block is freed and the new one perhaps sampled.
pub extern "C" fn realloc_end(
    result: u64,
    call: &Reallocation,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    if let (Some(claim), Some(recorder)) = (Claim::from_word(call.claim), process::recorder()) {
        let has_failed = result == 0 && call.size != 0;
        let thread = arch::thread();
        parked(thread, || {
            if has_failed {
                recorder.restore(claim, call.address);
            } else {
                recorder.complete(claim, call.address);
            }
        });
    }
    if call.inverse_probability_bits == 0 {
        return result;
    }
    record(result, call.size, call.inverse_probability_bits, entry, frame_pointer)
}

/// `_exit` was called.
pub extern "C" fn finish_with_status(status: i32) {
    process::finish(status);
}
