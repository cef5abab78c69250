//! Asks how much a process's sockets and terminals keep a reader waiting for. Unsafe: socket options.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Whether a socket or terminal of a process keeps a reader waiting until there is more than one byte. True if it cannot be known, except before
/// Linux 5.6, which cannot be asked.
pub fn is_patient(pid: i32, descriptor: i32) -> bool {
    // SAFETY: both calls take integers alone, and what they return is a descriptor of ours, or -1.
    let copy = unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        let copy = libc::syscall(libc::SYS_pidfd_getfd, process, descriptor, 0) as i32;
        let error = Error::last_os_error();
        libc::close(process);
        match copy {
            -1 => return error.raw_os_error() != Some(libc::ENOSYS),
            copy => OwnedFd::from_raw_fd(copy),
        }
    };
    let copy = copy.as_raw_fd();
    let mut least = 0i32;
    let mut bytes = size_of::<i32>() as u32;
    // SAFETY: the kernel writes at most `bytes` bytes, of a number, and one `termios`, for which all zero is valid.
    unsafe {
        let at = (&raw mut least).cast();
        if libc::getsockopt(copy, libc::SOL_SOCKET, libc::SO_RCVLOWAT, at, &raw mut bytes) == 0 {
            return least > 1;
        }
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(copy, &raw mut settings) == 0
            && settings.c_lflag & libc::ICANON == 0
            && settings.c_cc[libc::VMIN] > 1
    }
}

/// From now on a reader of a socket waits for so many bytes.
#[cfg(test)]
pub fn keep_waiting_for(socket: i32, bytes: i32) {
    let at = (&raw const bytes).cast();
    let length = size_of::<i32>() as u32;
    // SAFETY: the kernel reads one number through a pointer that is valid for the call.
    let done = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, at, length) };
    assert_eq!(done, 0);
}
