//! libramson.so: the part of ramson that lives in the profiled program.
//!
//! The way of one allocation: `arch` has the hooks, whose fast paths are four instructions (malloc) and seven (free); a due sample goes through
//! `hooks` (the slow path) to `record` (the profile file), which has `walk` follow the stack. `process` starts and ends it all, lazily: a program
//! that is never sampled does no more than find the real allocator.
//!
//! Here we are a guest: no heap, no panic, no lock that a thread waits for (the profile file has a shared flock, for those who remove old
//! ones); every loop and table has a bound. The only other code that libramson calls is the real functions behind its hooks,
//! `_dl_find_object` and the vDSO's clock.
#![cfg_attr(not(any(test, fuzzing)), no_std)]
#![cfg_attr(any(test, fuzzing), allow(dead_code, unused_imports))]

mod arch;
#[cfg(not(any(test, fuzzing)))]
mod attach;
mod config;
mod counter;
#[cfg(not(any(test, fuzzing)))]
mod extents;
mod families;
#[cfg(fuzzing)]
pub mod fuzzed;
mod governor;
#[cfg(not(any(test, fuzzing)))]
mod hooks;
#[cfg(not(any(test, fuzzing)))]
mod hooks_inside;
#[cfg(not(any(test, fuzzing)))]
mod inside;
mod loads;
mod orders;
mod page_filter;
mod parking;
mod process;
mod record;
mod resolve;
mod room;
mod sampler;
mod startup;
mod sys;
mod text;
mod walk;

#[cfg(not(any(test, fuzzing)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    arch::trap()
}
