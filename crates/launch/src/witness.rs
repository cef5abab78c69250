//! A process that stands in our process group, and in whatever else signals are sent to as a whole (systemd's control group), and tells
//! which signals were: the program that stands there, too, has them already.

use crate::{SIGNALS, bit_of};
use std::fs::File;
use std::io::{self, Read, Write, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// What is sent to many processes is not sent to all at once.
const PATIENCE: Duration = Duration::from_millis(20);
/// A signal that the witness heard and we did not, as two became one, is not that of later.
const MEMORY: Duration = Duration::from_secs(1);

/// It ends with us, or when dropped.
pub struct Witness {
    pid: i32,
    ask: File,
    answers: File,
    heard: [Option<Instant>; 65],
}

impl Witness {
    /// To be called while there is one thread and all signals are blocked.
    pub fn start() -> io::Result<Self> {
        let (question, ask) = pipe()?;
        let (answers, answer) = pipe()?;
        // SAFETY: `stand` makes only calls that are safe in a signal handler.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => stand(question.as_raw_fd(), answer.as_raw_fd()),
            pid => Ok(Self {
                pid,
                ask: File::from(OwnedFd::from(ask)),
                answers: File::from(OwnedFd::from(answers)),
                heard: [None; 65],
            }),
        }
    }

    /// Whether a signal that has reached us just now was sent to all. Waits a moment for it.
    pub fn has_heard(&mut self, signal: i32) -> bool {
        std::thread::sleep(PATIENCE);
        let mut bits = [0; 8];
        if self.ask.write_all(&[0]).and_then(|()| self.answers.read_exact(&mut bits)).is_ok() {
            let now = Some(Instant::now());
            for heard in SIGNALS.filter(|&it| u64::from_le_bytes(bits) & bit_of(it) != 0) {
                self.heard[heard as usize] = now;
            }
        }
        self.heard[signal as usize].take().is_some_and(|at| at.elapsed() < MEMORY)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: a child of ours, whose status nobody has taken: the process ID is still its own. Nothing is written.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, null_mut(), 0);
        }
    }
}

/// The witness: signals wait for it until it is asked.
fn stand(question: RawFd, answer: RawFd) -> ! {
    let (low, high) = (question.min(answer) as u32, question.max(answer) as u32);
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut byte = 0u8;
    // SAFETY: a process of its own with one thread, which allocates nothing. Descriptors that it closes are its own copies; those that it keeps
    // are open. Buffers are as long as is said.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"ramson-witness".as_ptr());
        libc::sigfillset(all.as_mut_ptr());
        for range in [(0, low.wrapping_sub(1)), (low + 1, high - 1), (high + 1, u32::MAX)] {
            if range.0 <= range.1 {
                libc::syscall(libc::SYS_close_range, range.0, range.1, 0);
            }
        }
        while libc::read(question, (&raw mut byte).cast(), 1) == 1 {
            let mut bits = 0u64;
            loop {
                match libc::sigtimedwait(all.as_ptr(), null_mut(), &none) {
                    signal if signal > 0 => bits |= bit_of(signal),
                    _ => break,
                }
            }
            if libc::write(answer, bits.to_le_bytes().as_ptr().cast(), 8) != 8 {
                break;
            }
        }
        libc::_exit(0)
    }
}
