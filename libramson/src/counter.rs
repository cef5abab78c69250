//! Whether the cycle counter may be read: a program can have the kernel answer that with SIGSEGV (`PR_SET_TSC`), in the C library's
//! precise clocks, too.
//!
//! The kernel keeps this per thread, and new threads and processes inherit it, so one thread that forbids it forbids it here for the
//! process, and for good. libramson asks the kernel what a thread did while there were no hooks, once after each time hooks were written.

use crate::sys::{self, permit};
use crate::{arch, loads};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
/// How often hooks were written into the running program; a thread knows for which of these times it has asked.
static TIMES_HOOKED: AtomicU64 = AtomicU64::new(0);

/// Whether reading it is harmless. Strict seccomp forbids it as well.
#[inline]
pub fn is_readable() -> bool {
    if IS_FORBIDDEN.load(Relaxed) || permit::is_nothing() {
        return false;
    }
    // An object that is new may call prctl without our hook.
    let has_asked = arch::thread().asked.get() == TIMES_HOOKED.load(Acquire);
    has_asked && !loads::are_new() || ask()
}

/// The cycle counter: what slow paths are measured by, and entropy. 0 where it may not be read.
#[inline]
pub fn cycles() -> u64 {
    if !is_readable() {
        return 0;
    }
    // SAFETY: looked at above; a raw system call that forbade it is not seen, and then every vDSO clock read of that program faults alike.
    unsafe { arch::cycles() }
}

/// prctl(2) is about to be called: whether that forbids it.
pub fn is_forbidden_by(option: u64, setting: u64) -> bool {
    const PR_SET_TSC: u32 = 26;
    const PR_TSC_SIGSEGV: u32 = 2;
    (option as u32, setting as u32) == (PR_SET_TSC, PR_TSC_SIGSEGV)
}

/// Asks the kernel whether this thread may read the counter. If the kernel must not be asked yet, the thread may not.
#[cold]
fn ask() -> bool {
    let times = TIMES_HOOKED.load(Acquire);
    if !permit::is_full() {
        return false;
    }
    if sys::is_counter_forbidden() {
        forbid();
        return false;
    }
    arch::thread().asked.set(times);
    true
}

/// Hooks were written into the running program: what threads forbade before was not seen.
pub fn ask_again() {
    TIMES_HOOKED.fetch_add(1, Release);
}

/// It is not read any more.
pub fn forbid() {
    IS_FORBIDDEN.store(true, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_ban_is_recognized() {
        // The C library passes ints: the upper halves are left over.
        assert!(is_forbidden_by(26, 2) && is_forbidden_by(0xf00d_0000_001a, 0xf00d_0000_0002));
        for (option, setting) in [(25, 2), (26, 0), (26, 1), (26, 3), (22, 2)] {
            assert!(!is_forbidden_by(option, setting), "{option} {setting}");
        }
    }
}
