//! Calls one function in another process: on a thread of it that waits in a system call, which then waits on as if nothing had been.
//!
//! **Promises.** Only that thread stops; all others run on. It has its registers, its processor state, its blocked signals and its errno again
//! afterwards, and its system call is begun again by the kernel's own rules. If whoever traces dies in the middle, the thread finds its way
//! back by itself (frame.rs); its system call is then begun anew, time-outs included. See docs/trim.md.

#![deny(unsafe_code)]

mod frame;
mod library;
mod stack;
mod threads;
#[allow(unsafe_code)]
mod trace;

pub use library::{Code, Library};
pub use threads::{Waiting, waiting};
pub use trace::share_memory;

use frame::Past;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use trace::{Registers, Stop, Traced};

/// Code segment of 64-bit programs.
const USER_CS: u64 = 0x33;
const SYSCALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];
/// Direction flag and single steps, which a called function must not find set.
const CLEARED_FLAGS: u64 = 0x400 | 0x100;
/// A system call that a stop interrupted ends with one of these, if the kernel is to begin it again …
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// … as it does with this one unless a signal's handler runs.
const RESTART_NO_HANDLER: i64 = -514;
/// Of what a fault raises: stays as the program has it.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];
/// Stack of `raise` at most.
const RAISE_BYTES: u64 = 4096;
/// A thread that waits stops at once.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks for a thread.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// See `FIRST_PAUSE`.
const MOST_PAUSE: Duration = Duration::from_millis(200);
/// Threads that are stopped in one look for one that will do.
const MOST_ATTEMPTS: usize = 8;

/// What to call.
pub struct Call<'a> {
    /// Address in the process.
    pub function: u64,
    /// First argument; the others are 0.
    pub first: First<'a>,
    /// The pieces of the C library that it returns through.
    pub code: Code,
    /// Where the offset of errno is.
    pub errno_offset_at: Option<u64>,
    /// Whether `is_safe` sees all locks that the function takes. If not, threads that wait for locks or run a signal handler are left alone.
    pub are_locks_seen: bool,
}

/// The first argument.
#[derive(Clone, Copy)]
pub enum First<'a> {
    /// A number.
    Word(u64),
    /// A pointer to these bytes.
    Text(&'a [u8]),
}

/// How a call went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The thread.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// How long it was stopped, the call included.
    pub stopped: Duration,
    /// The call alone.
    pub called: Duration,
}

/// Why it was not called, or not seen to return.
#[derive(Debug)]
pub enum Problem {
    /// The kernel does not let us trace it.
    Denied(io::Error),
    /// A filter of system calls might kill for one that the function makes.
    Seccomp,
    /// No thread will do; of the last one that was tried, why.
    NoThread(Option<String>),
    /// It did not return in time, and goes on by itself.
    Unfinished(i32),
    /// The process ended.
    Gone,
    /// Something else failed.
    Failed(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ESRCH) => Self::Gone,
            Some(libc::EPERM | libc::EACCES) => Self::Denied(error),
            _ => Self::Failed(error),
        }
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a thread that will do.
    pub patience: Duration,
    /// For the function to return.
    pub call: Duration,
}

enum Attempt {
    Done(Called),
    Unfit(String),
}

/// Calls the function in process `pid`. `is_safe` is asked while the thread is stopped; what it returns says why not on this thread.
pub fn call(
    pid: u32,
    call: &Call,
    limits: Limits,
    is_safe: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Called, Problem> {
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
    let process = Process { pid, memory };
    let deadline = Instant::now() + limits.patience;
    let (mut why, mut pause) = (None, FIRST_PAUSE);
    loop {
        for thread in waiting(pid, call.are_locks_seen).iter().take(MOST_ATTEMPTS) {
            match process.attempt(thread, call, limits.call, is_safe)? {
                Attempt::Done(called) => return Ok(called),
                Attempt::Unfit(reason) => why = Some(reason),
            }
        }
        if Instant::now() > deadline {
            return Err(Problem::NoThread(why));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MOST_PAUSE);
    }
}

struct Process {
    pid: u32,
    memory: File,
}

impl Process {
    fn attempt(
        &self,
        thread: &Waiting,
        call: &Call,
        limit: Duration,
        is_safe: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Attempt, Problem> {
        let unfit = |why: &str| Ok(Attempt::Unfit(format!("thread {}: {why}", thread.tid)));
        let directory = format!("/proc/{}/task/{}", self.pid, thread.tid);
        let Ok(status) = fs::read_to_string(format!("{directory}/status")) else {
            return unfit("it ended");
        };
        let Some(signal) = threads::harmless_signal(&status) else {
            return unfit("the program has handlers for SIGURG, SIGWINCH and SIGCHLD");
        };
        let begin = Instant::now();
        let mut traced = seize(self.pid as i32, thread.tid, field(&status, "Seccomp"))?;
        traced.interrupt()?;
        if let Some(why) = wait_for_stop(&mut traced)? {
            return unfit(why);
        }
        let registers = traced.registers()?;
        if let Err(why) = self.check(&registers, call) {
            return unfit(&why);
        }
        // Whatever comes: no EINTR because of us.
        traced.set_registers(&resumptions(&registers).1)?;
        if let Err(why) = is_safe() {
            return unfit(&why);
        }
        let name = fs::read_to_string(format!("{directory}/comm")).unwrap_or_default();
        let called = self.run(&mut traced, &registers, call, signal, limit)?;
        let (called, owed) = called.ok_or(Problem::Unfinished(thread.tid))?;
        traced.detach(owed);
        let (tid, stopped) = (thread.tid, begin.elapsed());
        Ok(Attempt::Done(Called { tid, name: name.trim_end().into(), stopped, called }))
    }

    /// Whether the thread is where it can be borrowed.
    fn check(&self, registers: &Registers, call: &Call) -> Result<(), String> {
        let arguments = [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ];
        let mut instruction = [0; 2];
        let is_read = registers
            .rip
            .checked_sub(2)
            .is_some_and(|address| self.memory.read_exact_at(&mut instruction, address).is_ok());
        if registers.cs != USER_CS || !is_read || instruction != SYSCALL_INSTRUCTION {
            return Err("it is in no 64-bit system call any more".into());
        }
        if threads::rank(registers.orig_rax as i64, &arguments).is_none() {
            return Err("it does not wait any more".into());
        }
        let own = stack::of(self.pid, registers.rsp, registers.fs_base)?;
        if !call.are_locks_seen && self.may_handle_signal(registers.rsp, own.end, &call.code) {
            return Err("it seems to run a signal handler".into());
        }
        Ok(())
    }

    /// Whether a return to the C library's call of rt_sigreturn lies on the stack, or that cannot be told.
    fn may_handle_signal(&self, start: u64, end: u64, code: &Code) -> bool {
        const MOST_BYTES: u64 = 1 << 20;
        let mut bytes = vec![0; (end - start).min(MOST_BYTES) as usize];
        let is_read = self.memory.read_exact_at(&mut bytes, start).is_ok();
        let restorer = code.restorer.to_le_bytes();
        !is_read || bytes.chunks_exact(8).any(|word| word == restorer)
    }

    /// Makes the call on the stopped thread and gives it back what it had. Returns how long that took and a signal that it is owed; `None`
    /// if it did not return.
    fn run(
        &self,
        traced: &mut Traced,
        registers: &Registers,
        call: &Call,
        signal: i32,
        limit: Duration,
    ) -> Result<Option<(Duration, i32)>, Problem> {
        let (before, after) = resumptions(registers);
        let extended_state = traced.extended_state()?;
        let blocked_signals = traced.blocked_signals()?;
        let past = Past { registers: &before, extended_state: &extended_state, blocked_signals };
        let text = match call.first {
            First::Word(_) => &[],
            First::Text(text) => text,
        };
        let frame = frame::lay_out(&past, &call.code, signal, text);
        let errno = call.errno_offset_at.and_then(|at| self.errno(at, registers.fs_base));
        self.memory.write_all_at(&frame.bytes, frame.start)?;
        let first = match call.first {
            First::Word(word) => word,
            First::Text(_) => frame.text,
        };
        // From here to the end, the thread is safe without us.
        traced.set_registers(&Registers {
            rip: call.function,
            rsp: frame.start,
            rdi: first,
            rsi: 0,
            rdx: 0,
            rcx: 0,
            r8: 0,
            r9: 0,
            rax: 0,
            // Not in a system call: the kernel must not begin one again.
            orig_rax: u64::MAX,
            eflags: registers.eflags & !CLEARED_FLAGS,
            ..*registers
        })?;
        traced.set_blocked_signals(signals_blocked_meanwhile(blocked_signals, signal))?;
        let begin = Instant::now();
        let Some(owed) = wait_for_return(traced, signal, frame.start, begin + limit)? else {
            return Ok(None);
        };
        let called = begin.elapsed();
        if let Some((address, value)) = errno {
            self.memory.write_all_at(&value, address)?;
        }
        traced.set_blocked_signals(blocked_signals)?;
        traced.set_extended_state(&extended_state)?;
        traced.set_registers(&after)?;
        Ok(Some((called, owed)))
    }

    /// Where the thread's errno is, and what it has.
    fn errno(&self, offset_at: u64, thread_pointer: u64) -> Option<(u64, [u8; 4])> {
        let (mut offset, mut value) = ([0; 8], [0; 4]);
        self.memory.read_exact_at(&mut offset, offset_at).ok()?;
        let address = thread_pointer.wrapping_add(u64::from_le_bytes(offset));
        self.memory.read_exact_at(&mut value, address).ok()?;
        Some((address, value))
    }
}

/// The registers with which the thread goes on: by itself, when only a jump back to the instruction begins the system call again; and with our
/// help, when the kernel does it by its own rules.
fn resumptions(registers: &Registers) -> (Registers, Registers) {
    let result = registers.rax as i64;
    let is_refused = result == -i64::from(libc::EINTR);
    if !is_refused && !RESTARTS.contains(&result) {
        return (*registers, *registers);
    }
    let alone = Registers { rip: registers.rip - 2, rax: registers.orig_rax, ..*registers };
    let helped = if is_refused {
        // What says EINTR says it because of our stop: a signal with a handler still makes it EINTR.
        Registers { rax: RESTART_NO_HANDLER as u64, ..*registers }
    } else {
        *registers
    };
    (alone, helped)
}

fn signals_blocked_meanwhile(blocked: u64, signal: i32) -> u64 {
    let bit = |signal: i32| 1u64 << (signal - 1);
    let faults = FAULTS.iter().fold(0, |mask, &fault| mask | bit(fault));
    (!faults | blocked) & !bit(signal)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Under a filter only if the kernel lifts it for the time.
fn seize(pid: i32, tid: i32, seccomp: Option<&str>) -> Result<Traced, Problem> {
    match seccomp {
        None | Some("0") => Ok(Traced::seize(pid, tid, false)?),
        Some("2") => Traced::seize(pid, tid, true).map_err(|_| Problem::Seccomp),
        Some(_) => Err(Problem::Seccomp),
    }
}

/// Why the thread cannot be used, if so.
fn wait_for_stop(traced: &mut Traced) -> Result<Option<&'static str>, Problem> {
    let deadline = Instant::now() + STOP_LIMIT;
    loop {
        match traced.wait(deadline)? {
            Some(Stop::Event(libc::SIGTRAP)) => return Ok(None),
            Some(Stop::Event(_)) => return Ok(Some("the process is stopped")),
            Some(Stop::Signal(signal)) => {
                // A signal's stop takes the place of the one that was asked for.
                traced.interrupt()?;
                traced.go_on(signal)?;
            }
            Some(Stop::Gone) => return Ok(Some("it ended")),
            None => return Ok(Some("it does not stop")),
        }
    }
}

/// Lets the thread run until it has raised `signal`. Returns a signal that it is owed, 0 for none; `None` if it does not come back.
fn wait_for_return(
    traced: &mut Traced,
    signal: i32,
    start: u64,
    deadline: Instant,
) -> Result<Option<i32>, Problem> {
    let (mut owed, mut passed_on) = (0, 0);
    loop {
        traced.go_on(passed_on)?;
        passed_on = match traced.wait(deadline)? {
            Some(Stop::Signal(found)) if found == signal => {
                if has_raised(&traced.registers()?, start) {
                    return Ok(Some(owed));
                }
                // Somebody else's: the thread gets it afterwards.
                owed = signal;
                0
            }
            Some(Stop::Signal(other)) => other,
            Some(Stop::Event(_)) => 0,
            Some(Stop::Gone) => return Err(Problem::Gone),
            None => {
                // It will find its way by itself, once nobody traces it any more.
                return Ok(None);
            }
        };
    }
}

/// Whether the thread is in `raise`, on its way back: the called function makes neither system call.
fn has_raised(registers: &Registers, start: u64) -> bool {
    let is_there = (start - RAISE_BYTES..start + RAISE_BYTES).contains(&registers.rsp);
    let number = registers.orig_rax as i64;
    is_there && (number == libc::SYS_tgkill || number == libc::SYS_rt_sigprocmask)
}
