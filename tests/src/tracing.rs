//! A child under ptrace(2): what the tests need of it.

use std::ptr::{null_mut, with_exposed_provenance_mut};

/// A child that this thread traces.
pub struct Traced {
    pid: i32,
}

/// Why a traced child stopped, or that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is about to get this signal.
    Signal(i32),
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

impl Traced {
    /// Stops a child and traces it from now on; `wait` tells when it has stopped.
    #[track_caller]
    pub fn attach(pid: u32) -> Self {
        let traced = Self { pid: pid.cast_signed() };
        traced.request(libc::PTRACE_ATTACH, 0);
        traced
    }

    /// Waits for its next stop or its end.
    #[track_caller]
    pub fn wait(&self) -> Stop {
        let mut status = 0;
        // SAFETY: the kernel writes one number through the pointer, which is valid for the call.
        let found = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!(found, self.pid, "{}", std::io::Error::last_os_error());
        if libc::WIFSTOPPED(status) {
            Stop::Signal(libc::WSTOPSIG(status))
        } else if libc::WIFEXITED(status) {
            Stop::Exited(libc::WEXITSTATUS(status))
        } else {
            Stop::Killed(libc::WTERMSIG(status))
        }
    }

    /// Lets it run to its next stop, without the signal that it was about to get.
    #[track_caller]
    pub fn go_on(&self) {
        self.request(libc::PTRACE_CONT, 0);
    }

    /// The same for one instruction.
    #[track_caller]
    pub fn step(&self) {
        self.request(libc::PTRACE_SINGLESTEP, 0);
    }

    /// Its registers, while it is stopped.
    #[track_caller]
    pub fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: all zero is a valid value of a structure of integers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, (&raw mut registers).expose_provenance());
        registers
    }

    /// Lets it run untraced.
    #[track_caller]
    pub fn detach(self) {
        self.request(libc::PTRACE_DETACH, 0);
    }

    #[track_caller]
    fn request(&self, request: u32, data: usize) {
        let data = with_exposed_provenance_mut::<libc::c_void>(data);
        // SAFETY: only PTRACE_GETREGS writes to our memory: one structure, through the address of a live one.
        let result = unsafe { libc::ptrace(request, self.pid, null_mut::<libc::c_void>(), data) };
        assert_eq!(result, 0, "{request}: {}", std::io::Error::last_os_error());
    }
}
