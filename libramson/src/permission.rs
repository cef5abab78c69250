//! Which system calls ramson may make here: a seccomp filter may kill for one that the program itself never uses.
//!
//! - Everything: there is no filter, or `ramson run` has tried ramson under this very chain of filters (`RAMSON_SECCOMP`).
//! - What the loader does: a filter was inherited whose rules nobody can read. The loader has just opened, read and mapped files
//!   under it, so that is safe; the profile then lives in private memory.
//! - Nothing: the program has a filter installed, or system calls of some code turned into signals, through the C library
//!   (`prctl_confines`, `syscall_confines`). Space is reserved before.
//!
//! Every call goes through `enter`; none is left to remember. See docs/decisions/0003.

use crate::sys::{self, File};
use core::sync::atomic::{AtomicU32, Ordering::*};
use ramson_format::settings::parse_number;

const LIKE_THE_LOADER: u32 = 0;
const EVERYTHING: u32 = 1;
const NOTHING: u32 = 2;

static GRANTED: AtomicU32 = AtomicU32::new(if cfg!(test) { EVERYTHING } else { LIKE_THE_LOADER });
/// Threads between the look at `GRANTED` and the end of their call.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Times that `give_up` looks for them: milliseconds. A forked child inherits the count of threads that it does not have.
const LOOKS: u32 = 1 << 20;

/// A system call that may be made.
pub struct Call;

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Release);
    }
}

/// Leave to make a system call, to be held until it has returned.
#[inline]
pub fn enter(number: usize, arguments: &[usize; 6]) -> Option<Call> {
    // Both sequentially consistent, as the store and the load in `give_up`: one of the two sees the other.
    CALLS.fetch_add(1, SeqCst);
    let call = Call;
    let is_granted = match GRANTED.load(SeqCst) {
        EVERYTHING => true,
        LIKE_THE_LOADER => sys::is_of_the_loader(number, arguments),
        _ => false,
    };
    is_granted.then_some(call)
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

/// Looks for an inherited filter. `tried_filters` is the number of filters that ramson has been tried under.
#[cold]
pub fn look(tried_filters: Option<u64>) {
    let status = filters();
    let is_free = status.is_some_and(|status| {
        status.mode == 0 || status.filters.is_some() && status.filters == tried_filters
    });
    let found = if is_free { EVERYTHING } else { LIKE_THE_LOADER };
    let _ = GRANTED.fetch_update(SeqCst, SeqCst, |now| (now != NOTHING).then_some(found));
}

/// From now on no system call is made, and none is under way.
#[cold]
pub fn give_up() {
    GRANTED.store(NOTHING, SeqCst);
    for _ in 0..LOOKS {
        if CALLS.load(SeqCst) == 0 {
            return;
        }
        core::hint::spin_loop();
    }
}

/// What /proc/self/status says about seccomp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Status {
    mode: u64,
    /// Since Linux 5.9.
    filters: Option<u64>,
}

/// `None`: the file is not there or says nothing; then there may be one.
fn filters() -> Option<Status> {
    let file = sys::open_to_read(c"/proc/self/status").ok()?;
    let mut lines = Lines::new(&file);
    let mut status = None;
    while let Some(line) = lines.next() {
        if let Some(mode) = number_after(line, b"Seccomp:\t") {
            status = Some(Status { mode, filters: None });
        } else if let Some(filters) = number_after(line, b"Seccomp_filters:\t") {
            status = status.map(|status| Status { filters: Some(filters), ..status });
        }
    }
    status
}

/// The number that follows `name` at the start of a line.
pub fn number_after(line: &[u8], name: &[u8]) -> Option<u64> {
    parse_number(line.strip_prefix(name)?).map(|(number, _)| number)
}

/// The lines of a file of /proc, cut at `LINE_BYTES`.
pub struct Lines<'a> {
    file: &'a File,
    buffer: [u8; 256],
    filled: usize,
    taken: usize,
    line: [u8; LINE_BYTES],
}

/// As much of a line as is kept.
pub const LINE_BYTES: usize = 48;

impl<'a> Lines<'a> {
    pub fn new(file: &'a File) -> Self {
        Self { file, buffer: [0; 256], filled: 0, taken: 0, line: [0; LINE_BYTES] }
    }

    pub fn next(&mut self) -> Option<&[u8]> {
        let mut length = 0;
        loop {
            if self.taken == self.filled {
                self.filled = self.file.read(&mut self.buffer);
                self.taken = 0;
                if self.filled == 0 {
                    return None;
                }
            }
            let byte = *self.buffer.get(self.taken)?;
            self.taken += 1;
            if byte == b'\n' {
                return self.line.get(..length);
            }
            if let Some(place) = self.line.get_mut(length) {
                *place = byte;
                length += 1;
            }
        }
    }
}

const SYS_PRCTL: u64 = 157;
const SYS_SECCOMP: u64 = 317;
const PR_SET_SECCOMP: u64 = 22;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const DISPATCH_OFF: u64 = 0;
const MODE_STRICT: u64 = 1;
const MODE_FILTER: u64 = 2;
const SET_MODE_STRICT: u64 = 0;
const SET_MODE_FILTER: u64 = 1;

/// prctl(2) is about to be called.
pub fn prctl_confines(option: u64, mode: u64, filter: u64) -> bool {
    match option as u32 as u64 {
        // Without a filter it is the usual question whether the kernel knows filters at all.
        PR_SET_SECCOMP => mode == MODE_STRICT || mode == MODE_FILTER && filter != 0,
        PR_SET_SYSCALL_USER_DISPATCH => mode != DISPATCH_OFF,
        _ => false,
    }
}

/// syscall(2) is about to be called.
pub fn syscall_confines(number: u64, first: u64, second: u64, third: u64) -> bool {
    match number {
        SYS_PRCTL => prctl_confines(first, second, third),
        SYS_SECCOMP => {
            let operation = first as u32 as u64;
            operation == SET_MODE_STRICT || operation == SET_MODE_FILTER && third != 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installs_a_filter_is_told_from_what_asks_about_them() {
        assert!(prctl_confines(22, 1, 0) && prctl_confines(22, 2, 0x1000));
        assert!(
            !prctl_confines(22, 2, 0) && !prctl_confines(21, 0, 0) && !prctl_confines(38, 1, 1)
        );
        assert!(syscall_confines(317, 0, 0, 0) && syscall_confines(317, 1, 8, 0x1000));
        assert!(syscall_confines(157, 22, 1, 0));
        assert!(prctl_confines(59, 1, 0) && syscall_confines(157, 59, 2, 0x1000));
        assert!(!prctl_confines(59, 0, 0));
        for (operation, filter) in [(1, 0), (2, 0x1000), (3, 0x1000)] {
            assert!(!syscall_confines(317, operation, 0, filter), "{operation}");
        }
        assert!(!syscall_confines(0, 1, 0, 0x1000));
    }

    #[test]
    fn the_status_of_this_process_is_read_to_its_end() {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok())
        };
        let expected =
            field("Seccomp:").map(|mode| Status { mode, filters: field("Seccomp_filters:") });
        assert!(expected.is_some());
        assert_eq!(filters(), expected);
    }
}
