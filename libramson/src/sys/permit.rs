//! Which system calls ramson may make here: a seccomp filter may kill for one that the program itself never uses.
//!
//! - Everything: there is no filter, or `ramson run` has tried ramson under this very chain of filters (`RAMSON_SECCOMP`).
//! - What the loader does: a filter was inherited whose rules nobody can read. The loader has just opened, read and mapped files
//!   under it, so that is safe; the profile then lives in private memory.
//! - Nothing: the program has a filter installed, or system calls of some code turned into signals (`filters`). Space is reserved before.
//!
//! Every call goes through `call`; none is left to remember.
//!
//! A process cannot read a filter's rules, and asking (`PR_GET_SECCOMP`, a trial call, a handler for SIGSYS) is itself a call that may kill.
//! Filters are only ever added, so an equal number of filters in a descendant means the same filters.

use super::flags::*;
use crate::arch::{nr, syscall};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

const LIKE_THE_LOADER: u32 = 0;
const EVERYTHING: u32 = 1;
const NOTHING: u32 = 2;

static GRANTED: AtomicU32 = AtomicU32::new(if cfg!(test) { EVERYTHING } else { LIKE_THE_LOADER });
/// Threads between the look at `GRANTED` and the end of their call, until `count_calls_in` names another place.
static FIRST_CALLS: AtomicU32 = AtomicU32::new(0);
static CALLS: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const FIRST_CALLS).cast_mut());
/// Times that `give_up` looks for them: milliseconds.
const LOOKS: u32 = 1 << 20;

/// A failed call's errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// See errno(3).
pub const EEXIST: Errno = Errno(17);
/// A call that was not made.
const EPERM: isize = 1;

/// Counts threads that make a call in `counter`, which the kernel zeroes in a forked child: of the threads that were counted it has only the one
/// that forked. Before the first call.
pub fn count_calls_in(counter: &'static AtomicU32) {
    CALLS.store(core::ptr::from_ref(counter).cast_mut(), Relaxed);
}

fn calls() -> &'static AtomicU32 {
    // SAFETY: only addresses of statics are stored there.
    unsafe { &*CALLS.load(Relaxed) }
}

/// Makes a system call, if it may be made.
pub(super) fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    // Both sequentially consistent, as the store and the load in `give_up`: one of the two sees the other.
    let calls = calls();
    calls.fetch_add(1, SeqCst);
    let is_granted = match GRANTED.load(SeqCst) {
        EVERYTHING => true,
        LIKE_THE_LOADER => is_of_the_loader(number, &arguments),
        _ => false,
    };
    // SAFETY: each caller in this folder passes pointers that are valid for what the call reads or writes.
    let result = if is_granted { unsafe { syscall(number, arguments) } } else { -EPERM };
    calls.fetch_sub(1, Release);
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Whether the loader itself makes such a call when it starts a program.
fn is_of_the_loader(number: usize, arguments: &[usize; 6]) -> bool {
    match number {
        nr::READ | nr::CLOSE => true,
        nr::OPENAT => arguments[2] == (O_RDONLY | O_CLOEXEC) as usize,
        nr::MMAP => arguments[3] & MAP_SHARED == 0,
        nr::MPROTECT => matches!(arguments[2], PROT_READ | PROT_READ_WRITE),
        _ => false,
    }
}

/// Whether files may be made and memory be looked at.
#[inline]
pub fn is_full() -> bool {
    GRANTED.load(Relaxed) == EVERYTHING
}

/// Whether the program confined itself.
#[inline]
pub fn is_nothing() -> bool {
    GRANTED.load(Relaxed) == NOTHING
}

/// From now on everything may be done, or what the loader does, unless nothing may be any more.
pub(super) fn grant(everything: bool) {
    let granted = if everything { EVERYTHING } else { LIKE_THE_LOADER };
    let _ = GRANTED.fetch_update(SeqCst, SeqCst, |now| (now != NOTHING).then_some(granted));
}

/// From now on no system call is made, and none is under way.
#[cold]
pub fn give_up() {
    GRANTED.store(NOTHING, SeqCst);
    for _ in 0..LOOKS {
        if calls().load(SeqCst) == 0 {
            return;
        }
        core::hint::spin_loop();
    }
}
