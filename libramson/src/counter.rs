//! Whether the cycle counter may be read: a program can have the kernel answer that with SIGSEGV (`PR_SET_TSC`), in the C library's
//! precise clocks, too.
//!
//! The kernel keeps this per thread, and new threads and processes inherit it, so one thread that forbids it forbids it here for
//! the process. It is allowed again when no thread can be left for which it is not.

use crate::arch::{self, nr};
use crate::sys::{self, Lines, number_after, permit};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
/// Process that forbade it; 0 if not known. Others may share this memory (vfork) or have a copy of it.
static FORBIDDEN_BY: AtomicU64 = AtomicU64::new(0);

const PR_SET_TSC: u64 = 26;
const ALLOWED: u64 = 1;
const IS_SIGSEGV: u64 = 2;

/// What a call of the program's is about to do to the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Forbid,
    Allow,
}

/// Whether reading it is harmless. Strict seccomp forbids it as well.
#[inline]
pub fn is_readable() -> bool {
    !IS_FORBIDDEN.load(Relaxed) && !permit::is_nothing()
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

/// prctl(2) is about to be called.
pub fn prctl_changes(option: u64, setting: u64) -> Option<Change> {
    match (option as u32 as u64, setting as u32 as u64) {
        (PR_SET_TSC, IS_SIGSEGV) => Some(Change::Forbid),
        (PR_SET_TSC, ALLOWED) => Some(Change::Allow),
        _ => None,
    }
}

/// syscall(2) is about to be called.
pub fn syscall_changes(number: u64, first: u64, second: u64) -> Option<Change> {
    if number == nr::PRCTL as u64 { prctl_changes(first, second) } else { None }
}

/// Notes a change before it is made; returns whether reads stop here.
#[cold]
pub fn note(change: Change) -> bool {
    match change {
        Change::Forbid => {
            FORBIDDEN_BY.store(this_process().map_or(0, |process| process.id), Relaxed);
            IS_FORBIDDEN.store(true, Relaxed);
        }
        Change::Allow => {
            let process = this_process();
            let is_last = process.is_some_and(|process| {
                process.threads == 1 && process.id == FORBIDDEN_BY.load(Relaxed)
            });
            if is_last {
                IS_FORBIDDEN.store(false, Relaxed);
            }
        }
    }
    change == Change::Forbid
}

#[derive(Debug, PartialEq)]
struct Process {
    id: u64,
    threads: u64,
}

/// From a file, which may be read where the questions themselves may not be asked.
fn this_process() -> Option<Process> {
    let file = sys::open_to_read(c"/proc/self/status").ok()?;
    let mut lines = Lines::new(&file);
    let (mut id, mut threads) = (None, None);
    while let Some(line) = lines.next() {
        id = id.or(number_after(line, b"Pid:\t"));
        threads = threads.or(number_after(line, b"Threads:\t"));
    }
    Some(Process { id: id?, threads: threads? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sets_the_counter_is_told_from_other_calls() {
        assert_eq!(prctl_changes(26, 2), Some(Change::Forbid));
        assert_eq!(prctl_changes(26, 1), Some(Change::Allow));
        // The C library passes ints: the upper halves are left over.
        assert_eq!(prctl_changes(0xf00d_0000_001a, 0xf00d_0000_0002), Some(Change::Forbid));
        for (option, setting) in [(25, 2), (26, 0), (26, 3), (22, 2)] {
            assert_eq!(prctl_changes(option, setting), None, "{option} {setting}");
        }
        assert_eq!(syscall_changes(157, 26, 2), Some(Change::Forbid));
        assert_eq!(syscall_changes(317, 26, 2), None);
    }

    #[test]
    fn this_process_has_its_id_and_its_threads() {
        let process = this_process().unwrap();
        assert_eq!(process.id, std::process::id() as u64);
        let (started, end) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                end.wait();
            });
            started.wait();
            assert!(this_process().unwrap().threads >= 2);
            end.wait();
        });
    }
}
