//! The words in a profile file by which its process is asked to give memory back, and by which it answers: FORMAT.md, "Requests".
//!
//! Each word has one writer, so that plain writes do: ours are the request's, until the process sets its number to 0.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use ramson_format::{Answer, Looks, Outcome, REQUEST_OFFSET, Request, Requests, request_check};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks at a lock that somebody else has, or at an answer.
pub const PAUSE: Duration = Duration::from_millis(1);
/// After the deadline, before the process is believed not to have taken a request: what it takes to read a clock and store a word.
const GRACE_NS: u64 = 100_000_000;

/// A profile file that nobody else asks through.
pub struct Asking {
    file: File,
    number: u64,
    deadline_ns: u64,
}

/// What the process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It was done, or not.
    Done { outcome: Option<Outcome>, tid: u32, held: Duration },
    /// A thread is at it.
    Taken,
    /// Threads may have looked at it.
    NotYet(Looks),
    /// And none will take it any more.
    Never(Looks),
}

impl Asking {
    /// Waits for others who ask, as long as `patience`; `None` if they are still there.
    pub fn lock(file: File, patience: Duration) -> io::Result<Option<Self>> {
        let range = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: REQUEST_OFFSET as i64,
            l_len: size_of::<Requests>() as i64,
            l_pid: 0,
        };
        let begin = Instant::now();
        loop {
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&range)) {
                Ok(_) => return Ok(Some(Self { file, number: 0, deadline_ns: 0 })),
                Err(Errno::EAGAIN | Errno::EACCES) if begin.elapsed() < patience => sleep(PAUSE),
                Err(Errno::EAGAIN | Errno::EACCES) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks; the request counts for `patience`, whatever becomes of us.
    pub fn ask(&mut self, patience: Duration) -> io::Result<()> {
        // One that somebody left behind.
        self.withdraw()?;
        let [number, taken, done] = [
            offset_of!(Request, number),
            answer_offset(offset_of!(Answer, taken)),
            answer_offset(offset_of!(Answer, done)),
        ]
        .map(|offset| self.word(offset));
        self.number = number?.max(taken?).max(done?).wrapping_add(1).max(1);
        self.deadline_ns = now_ns() + patience.as_nanos() as u64;
        let check = request_check(self.number, self.deadline_ns);
        self.set_word(offset_of!(Request, deadline_ns), self.deadline_ns)?;
        self.set_word(offset_of!(Request, check), check)?;
        self.set_word(offset_of!(Request, number), self.number)
    }

    /// How far it is.
    pub fn answered(&self) -> io::Result<Answered> {
        let is_too_late = now_ns() > self.deadline_ns + GRACE_NS;
        // After the clock: what is not taken by then is never taken. What is done was taken before.
        let is_taken = self.word(answer_offset(offset_of!(Answer, taken)))? == self.number;
        if self.word(answer_offset(offset_of!(Answer, done)))? == self.number {
            let outcome = self.word(answer_offset(offset_of!(Answer, outcome)))?;
            let held_ns = self.word(answer_offset(offset_of!(Answer, held_ns)))?;
            return Ok(Answered::Done {
                outcome: Outcome::of(outcome as u32),
                tid: (outcome >> 32) as u32,
                held: Duration::from_nanos(held_ns),
            });
        }
        let looks = self.word(answer_offset(offset_of!(Answer, looks)))?;
        let looks = Looks::of(looks, self.number);
        Ok(match (is_taken, is_too_late) {
            (true, _) => Answered::Taken,
            (false, false) => Answered::NotYet(looks),
            (false, true) => Answered::Never(looks),
        })
    }

    /// Takes the request back.
    pub fn withdraw(&self) -> io::Result<()> {
        self.set_word(offset_of!(Request, number), 0)
    }

    fn word(&self, offset: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, REQUEST_OFFSET + offset as u64)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn set_word(&self, offset: usize, word: u64) -> io::Result<()> {
        self.file.write_all_at(&word.to_le_bytes(), REQUEST_OFFSET + offset as u64)
    }
}

fn answer_offset(offset: usize) -> usize {
    offset_of!(Requests, answer) + offset
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
