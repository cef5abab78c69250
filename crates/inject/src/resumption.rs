//! How a thread goes on that was stopped in a system call, or before one.

use crate::threads;
use crate::trace::Registers;

/// A system call that a stop interrupted ends with one of these, if the kernel is to begin it again …
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// … as it does with this one unless a signal's handler runs.
const RESTART_NO_HANDLER: i64 = -514;
/// … and with this one as restart_syscall.
const RESTART_BY_NUMBER: i64 = -516;

/// The registers with which a thread goes on, where a system call is begun again: by a jump back to it, or with our help by the kernel.
pub struct Resumption {
    pub alone: Registers,
    pub helped: Registers,
}

impl Resumption {
    /// Returns how a stopped thread goes on. If the kernel may not use restart_syscall, the thread begins its call anew by itself.
    pub fn of(registers: &Registers, may_restart: bool) -> Self {
        let result = registers.rax as i64;
        let is_refused = result == -i64::from(libc::EINTR)
            && threads::can_begin_again(registers.orig_rax as i64);
        if !is_in_call(registers) || !is_refused && !RESTARTS.contains(&result) {
            return Self { alone: *registers, helped: *registers };
        }
        let alone = Registers { rip: registers.rip - 2, rax: registers.orig_rax, ..*registers };
        if result == RESTART_BY_NUMBER && !may_restart {
            return Self { alone, helped: alone };
        }
        // A call that says EINTR says it because of our stop: a signal with a handler still makes it EINTR.
        let rax = if is_refused { RESTART_NO_HANDLER as u64 } else { registers.rax };
        let helped = Registers { rax, ..*registers };
        Self { alone, helped }
    }

    /// Returns how a thread goes on that has not begun its system call yet: it begins the call afterwards.
    pub fn at_entry(registers: &Registers) -> Self {
        let later = Registers { rip: registers.rip - 2, rax: registers.orig_rax, ..*registers };
        Self { alone: later, helped: later }
    }
}

/// A thread that runs has a negative number there.
pub fn is_in_call(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0
}
