//! Reasons why a call was not made.

use std::io;

/// Why a filter of system calls forbids the call.
#[derive(Debug)]
pub enum Seccomp {
    /// It lets nothing through that an allocator needs.
    Strict,
    /// The filter cannot be read, or cannot be suspended meanwhile; the text says why.
    Unreadable(String),
    /// It may not let this system call through.
    Refused(&'static str),
}

/// Why it was not called, or not seen to return.
#[derive(Debug)]
pub enum Problem {
    /// The kernel does not let us trace it.
    Denied(io::Error),
    /// A filter of system calls might kill for one that the function makes.
    Seccomp(Seccomp),
    /// No thread will do; of the last one that was tried, why.
    NoThread(Option<String>),
    /// It did not return in time, and goes on by itself.
    Unfinished(i32),
    /// The process ended.
    Gone,
    /// It runs another program than the one that was looked at.
    Changed,
    /// Something else failed.
    Failed(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            // Without a process there is no directory of it.
            Some(libc::ESRCH | libc::ENOENT) => Self::Gone,
            Some(libc::EPERM | libc::EACCES) => Self::Denied(error),
            _ => Self::Failed(error),
        }
    }
}
