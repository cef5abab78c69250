//! Asks the kernel about this process and this thread.

use super::permit::{Errno, call};
use crate::arch::nr;

/// See errno(3).
const EINTR: Errno = Errno(4);

/// Does nothing for so long, less than a second.
pub fn pause(ns: u64) {
    let mut left = [0, ns];
    let address = left.as_mut_ptr() as usize;
    // After a signal the kernel has written what is left.
    while call(nr::NANOSLEEP, [address, address, 0, 0, 0, 0]) == Err(EINTR) {}
}

/// Runs `work` while no signal interrupts this thread, but for those of faults. Nothing is done where that cannot be had.
pub fn without_signals(work: impl FnOnce()) {
    const SIG_SETMASK: usize = 2;
    const MASK_BYTES: usize = 8;
    /// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS, as bits.
    const FAULTS: u64 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30;
    let mut before = 0u64;
    let all = !FAULTS;
    let from = (&raw const all) as usize;
    let to = (&raw mut before) as usize;
    if call(nr::RT_SIGPROCMASK, [SIG_SETMASK, from, to, MASK_BYTES, 0, 0]).is_ok() {
        work();
        let _ = call(nr::RT_SIGPROCMASK, [SIG_SETMASK, to, 0, MASK_BYTES, 0, 0]);
    }
}

/// Whether the kernel says that this thread may not read the cycle counter; false where it may not be asked.
pub fn is_counter_forbidden() -> bool {
    const PR_GET_TSC: usize = 25;
    const PR_TSC_SIGSEGV: u32 = 2;
    let mut setting = 0u32;
    call(nr::PRCTL, [PR_GET_TSC, (&raw mut setting) as usize, 0, 0, 0, 0]).is_ok()
        && setting == PR_TSC_SIGSEGV
}

/// getpid(2), never cached.
pub fn process_id() -> u32 {
    call(nr::GETPID, [0; 6]).unwrap_or(0) as u32
}

/// gettid(2).
pub fn thread_id() -> u32 {
    call(nr::GETTID, [0; 6]).unwrap_or(0) as u32
}

/// getuid(2).
pub fn user_id() -> u32 {
    call(nr::GETUID, [0; 6]).unwrap_or(0) as u32
}

/// The calling thread's name.
pub fn thread_name() -> [u64; 2] {
    const PR_GET_NAME: usize = 16;
    let mut name = [0u64; 2];
    let _ = call(nr::PRCTL, [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]);
    name
}

/// Soft limit on the length of files that this process writes; beyond it SIGXFSZ would kill the program.
pub fn file_size_limit() -> u64 {
    const RLIMIT_FSIZE: usize = 1;
    let mut limit = [0u64; 2];
    match call(nr::PRLIMIT64, [0, RLIMIT_FSIZE, 0, limit.as_mut_ptr() as usize, 0, 0]) {
        Ok(_) => limit[0],
        Err(_) => 0,
    }
}

/// Nanoseconds of a clock (see clock_gettime(2)), by system call.
pub fn clock_ns(clock: usize) -> u64 {
    let mut time = [0u64; 2];
    let _ = call(nr::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize, 0, 0, 0, 0]);
    time[0] * 1_000_000_000 + time[1]
}

/// The calling thread's alternate signal stack, if it has one.
pub struct SignalStack {
    pub low: u64,
    pub high: u64,
    /// The thread is on it now.
    pub is_in_use: bool,
}

/// sigaltstack(2).
pub fn signal_stack() -> Result<SignalStack, Errno> {
    const SS_ONSTACK: u64 = 1;
    // struct stack_t: ss_sp, ss_flags (an int), ss_size. The same on every 64-bit little-endian architecture but MIPS.
    let mut stack = [0u64; 3];
    call(nr::SIGALTSTACK, [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    let [low, stack_flags, bytes] = stack;
    Ok(SignalStack { low, high: low + bytes, is_in_use: stack_flags & SS_ONSTACK != 0 })
}
