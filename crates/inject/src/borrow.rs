//! One thread is borrowed: stopped, looked at, sent through the calls, and let go as it was.

use crate::frame::{self, Frame, Past, USER_CS};
use crate::maps::Maps;
use crate::seccomp::{self, Filters};
use crate::threads;
use crate::trace::{Deferred, Registers, Stop, Traced};
use crate::{Argument, CALL_LIMIT, Call, Called, Problem, Seccomp, Step};
use std::fs::File;
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const SYSCALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];
/// Direction flag and single steps, which a called function must not find set.
const CLEARED_FLAGS: u64 = 0x400 | 0x100;
/// A system call that a stop interrupted ends with one of these, if the kernel is to begin it again …
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// … as it does with this one unless a signal's handler runs.
const RESTART_NO_HANDLER: i64 = -514;
/// … and with this one as restart_syscall.
const RESTART_BY_NUMBER: i64 = -516;
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

/// A process whose memory may be written.
pub struct Process {
    pid: u32,
    memory: File,
}

impl Process {
    pub fn open(pid: u32) -> Result<Self, Problem> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Self { pid, memory })
    }

    pub fn write(&self, address: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.memory.write_all_at(bytes, address)
    }

    /// Borrows one thread; `NoThread` if it will not do, also when it has stopped.
    pub fn attempt(
        &self,
        tid: i32,
        call: &Call,
        is_safe: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Called, Problem> {
        let unfit = |why: &str| Problem::NoThread(Some(format!("thread {tid}: {why}")));
        let directory = format!("/proc/{}/task/{tid}", self.pid);
        let status = threads::text(format!("{directory}/status"));
        let status = status.map_err(|_| unfit("it ended"))?;
        let signal = threads::harmless_signal(&status)
            .ok_or_else(|| unfit("the program has handlers for SIGURG, SIGWINCH and SIGCHLD"))?;
        let is_filtered = self.is_filtered(tid, &status, call)?;
        let begin = Instant::now();
        // Whoever asks this program to end is heard when the thread has all back that is its own.
        let _deferred = Deferred::begin();
        let mut traced = Traced::seize(self.pid as i32, tid)?;
        traced.interrupt()?;
        if let Some(why) = wait_for_stop(&mut traced)? {
            return Err(unfit(why));
        }
        let registers = traced.registers()?;
        let filters = is_filtered.then(|| Filters::of(&traced));
        let may_restart =
            filters.as_ref().is_none_or(|of| of.as_ref().is_ok_and(Filters::allow_restart));
        let past = Resumption::of(&registers, may_restart);
        // Whatever comes: no EINTR because of us.
        traced.set_registers(&past.helped)?;
        if let Some(filters) = filters {
            pass(&traced, filters, call)?;
        }
        let checked = self.check(&traced, &registers, call).and_then(|()| is_safe());
        checked.map_err(|why| unfit(&why))?;
        let name = threads::text(format!("{directory}/comm")).unwrap_or_default();
        let returned = self.run(&mut traced, &past, call, signal)?;
        let Returned { called, owed, data } = returned.ok_or(Problem::Unfinished(tid))?;
        traced.detach(owed);
        let stopped = begin.elapsed();
        Ok(Called { tid, name: name.trim_end().into(), stopped, called, data })
    }

    /// Whether filters look at the thread's system calls; fails if it must not even be stopped because of them.
    fn is_filtered(&self, tid: i32, status: &str, call: &Call) -> Result<bool, Problem> {
        match threads::field(status, "Seccomp") {
            None | Some("0") => return Ok(false),
            Some("2") => {}
            Some(_) => return Err(Problem::Seccomp(Seccomp::Strict)),
        }
        if call.suspends_seccomp {
            return Ok(true);
        }
        if !seccomp::may_be_read() {
            return Err(Problem::Seccomp(Seccomp::Unreadable("only root can read it".into())));
        }
        match threads::is_begun_again_by_number(self.pid, tid) {
            true => Err(Problem::Seccomp(Seccomp::Refused("restart_syscall"))),
            false => Ok(true),
        }
    }

    /// Whether the thread is where it can be borrowed.
    fn check(&self, traced: &Traced, registers: &Registers, call: &Call) -> Result<(), String> {
        if registers.cs != USER_CS {
            return Err("it runs 32-bit code".into());
        }
        let maps = Maps::of(self.pid, registers.rsp, registers.rip);
        let stack_end = maps.stack_end(&self.memory, registers.rsp, registers.fs_base)?;
        let computes = call.are_locks_seen && !is_in_call(registers);
        let malloc_code = call.code.malloc.as_ref().filter(|_| computes);
        if malloc_code.is_some() {
            maps.check_code()?;
            if self.may_be_in_a_sequence(traced) {
                return Err("it may be in a restartable sequence".into());
            }
        } else {
            self.check_waiting(registers)?;
        }
        let is_free = |word: u64, above: &[u8]| {
            let in_handler = word == call.code.restorer && frame::is_context(above);
            !in_handler && !malloc_code.is_some_and(|code| code.contains(&word))
        };
        if !self.is_stack_free(registers.rsp, stack_end, is_free) {
            return Err("it seems to run a signal handler, or malloc".into());
        }
        Ok(())
    }

    fn check_waiting(&self, registers: &Registers) -> Result<(), String> {
        let r = registers;
        let arguments = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        let instruction = registers.rip.checked_sub(2).and_then(|at| self.read(at));
        if instruction != Some(SYSCALL_INSTRUCTION) {
            return Err("it is in no 64-bit system call any more".into());
        }
        if threads::rank(registers.orig_rax as i64, &arguments).is_none() {
            return Err("it does not wait any more".into());
        }
        Ok(())
    }

    /// Whether every word of the stack, with what is above it, may be there; false if that cannot be told.
    fn is_stack_free(&self, start: u64, end: u64, is_free: impl Fn(u64, &[u8]) -> bool) -> bool {
        const MOST_BYTES: u64 = 8 << 20;
        let mut bytes = vec![0; (end - start).min(MOST_BYTES) as usize];
        let is_whole = end - start <= MOST_BYTES;
        let is_read = is_whole && self.memory.read_exact_at(&mut bytes, start).is_ok();
        let (words, _) = bytes.as_chunks();
        let mut numbered = (1..).zip(words);
        is_read
            && numbered.all(|(next, &word)| is_free(u64::from_le_bytes(word), &bytes[8 * next..]))
    }

    /// A restartable sequence begins anew when it is interrupted, which our call would hide from the kernel.
    fn may_be_in_a_sequence(&self, traced: &Traced) -> bool {
        const SEQUENCE_OFFSET: u64 = 8;
        match traced.restartable_sequences() {
            Ok(None) => false,
            Ok(Some(at)) => self.read(at + SEQUENCE_OFFSET) != Some([0; 8]),
            Err(_) => true,
        }
    }

    /// Makes the calls on the stopped thread and gives it back what it had; `None` if one did not return.
    fn run(
        &self,
        traced: &mut Traced,
        resumption: &Resumption,
        call: &Call,
        signal: i32,
    ) -> Result<Option<Returned>, Problem> {
        let registers = &resumption.alone;
        let extended_state = traced.extended_state()?;
        let blocked_signals = traced.blocked_signals()?;
        let past = Past { registers, extended_state: &extended_state, blocked_signals };
        let errno = call.code.errno_offset_at.and_then(|at| self.errno(at, registers.fs_base));
        let begin = Instant::now();
        let mut returned = Returned { called: Duration::ZERO, owed: 0, data: Vec::new() };
        for step in call.steps {
            let frame = frame::lay_out(&past, call.code, signal, step.data);
            self.memory.write_all_at(&frame.bytes, frame.start)?;
            // From here to the end, the thread is safe without us.
            traced.set_registers(&registers_at_entry(registers, step, &frame))?;
            traced.set_blocked_signals(signals_blocked_meanwhile(blocked_signals, signal))?;
            let Some(owed) = wait_for_return(traced, signal, frame.start, begin + CALL_LIMIT)?
            else {
                return Ok(None);
            };
            returned.owed = returned.owed.max(owed);
            let mut data = vec![0; step.data.len()];
            self.memory.read_exact_at(&mut data, frame.data)?;
            returned.data.push(data);
        }
        returned.called = begin.elapsed();
        if let Some((address, value)) = errno {
            self.memory.write_all_at(&value, address)?;
        }
        traced.set_blocked_signals(blocked_signals)?;
        traced.set_extended_state(&extended_state)?;
        traced.set_registers(&resumption.helped)?;
        Ok(Some(returned))
    }

    /// Where the thread's errno is, and what it has.
    fn errno(&self, offset_at: u64, thread_pointer: u64) -> Option<(u64, [u8; 4])> {
        let address = thread_pointer.wrapping_add(u64::from_le_bytes(self.read(offset_at)?));
        Some((address, self.read(address)?))
    }

    fn read<const LENGTH: usize>(&self, address: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }
}

/// What came of the calls.
struct Returned {
    called: Duration,
    /// A signal that the thread is to get afterwards; 0 for none.
    owed: i32,
    data: Vec<Vec<u8>>,
}

/// The registers with which a thread goes on, where a system call is begun again: by a jump back to it, or with our help by the kernel.
struct Resumption {
    alone: Registers,
    helped: Registers,
}

impl Resumption {
    /// Where the kernel may not use restart_syscall, the thread begins its call anew by itself.
    fn of(registers: &Registers, may_restart: bool) -> Self {
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
        // What says EINTR says it because of our stop: a signal with a handler still makes it EINTR.
        let rax = if is_refused { RESTART_NO_HANDLER as u64 } else { registers.rax };
        let helped = Registers { rax, ..*registers };
        Self { alone, helped }
    }
}

/// A thread that runs has a negative number there.
fn is_in_call(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0
}

/// The registers at the function's first instruction.
fn registers_at_entry(past: &Registers, step: &Step, frame: &Frame) -> Registers {
    let argument = |index: usize| match step.arguments.get(index) {
        None => 0,
        Some(Argument::Word(word)) => *word,
        Some(Argument::Data(offset)) => frame.data + *offset as u64,
    };
    Registers {
        rip: step.function,
        rsp: frame.start,
        rdi: argument(0),
        rsi: argument(1),
        rdx: argument(2),
        rcx: argument(3),
        r8: argument(4),
        r9: argument(5),
        rax: 0,
        // Not in a system call: the kernel must not begin one again.
        orig_rax: u64::MAX,
        eflags: past.eflags & !CLEARED_FLAGS,
        ..*past
    }
}

fn signals_blocked_meanwhile(blocked: u64, signal: i32) -> u64 {
    let bit = |signal: i32| 1u64 << (signal - 1);
    let faults = FAULTS.iter().fold(0, |mask, &fault| mask | bit(fault));
    (!faults | blocked) & !bit(signal)
}

/// Under filters a call is made if they let through all of it, or if they are not looked at meanwhile because the caller wants that.
fn pass(traced: &Traced, filters: Result<Filters, Error>, call: &Call) -> Result<(), Problem> {
    if call.suspends_seccomp {
        let unable = |error: Error| Problem::Seccomp(Seccomp::Unreadable(error.to_string()));
        return traced.suspend_seccomp().map_err(unable);
    }
    match filters {
        Err(error) => Err(Problem::Seccomp(Seccomp::Unreadable(error.to_string()))),
        Ok(filters) => match filters.first_refused(call.purpose) {
            Some(name) => Err(Problem::Seccomp(Seccomp::Refused(name))),
            None => Ok(()),
        },
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
            Some(Stop::Exec) => return Ok(Some("it has started another program")),
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
                // Not ours: the thread gets it afterwards.
                owed = signal;
                0
            }
            Some(Stop::Signal(other)) => other,
            Some(Stop::Event(_)) => 0,
            // What it was is gone: nothing of that may be written to what it is now.
            Some(Stop::Exec | Stop::Gone) => return Err(Problem::Gone),
            // It will find its way by itself, once it is not traced any more.
            None => return Ok(None),
        };
    }
}

/// Whether the thread is in `raise`, on its way back: the called function makes neither system call.
fn has_raised(registers: &Registers, start: u64) -> bool {
    let is_there = (start - RAISE_BYTES..start + RAISE_BYTES).contains(&registers.rsp);
    let number = registers.orig_rax as i64;
    is_there && (number == libc::SYS_tgkill || number == libc::SYS_rt_sigprocmask)
}
