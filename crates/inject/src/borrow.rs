//! One thread is borrowed: stopped, looked at, sent through the calls, and let go as it was.

use crate::frame::{self, Past, USER_CS};
use crate::identity::Identity;
use crate::maps::Maps;
use crate::resumption::{Resumption, is_in_call};
use crate::seccomp::{self, Filters};
use crate::threads::{self, Candidate};
use crate::trace::{Deferred, Registers, Stop, Traced};
use crate::waits::{DOES_NOT_STOP, wait_for_return, wait_for_stop, wait_for_way_back};
use crate::{CALL_LIMIT, Call, Called, Problem, Seccomp};
use std::fs::File;
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const SYSCALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];
/// Signals that a fault raises: they stay as the program has them.
const FAULTS: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];
/// How long a thread that cannot be borrowed where it is may take to come to a system call before which it can, …
const STEP_LIMIT: Duration = Duration::from_millis(100);
/// … and how many it passes at most.
const MOST_CALLS: usize = 200;

/// A process while it runs one program: its memory of then, and whether it still does.
pub struct Process {
    pub(crate) pid: u32,
    pub(crate) memory: File,
    identity: Identity,
}

impl Process {
    /// Opens a process. Facts that are learnt of it afterwards are true of the memory that is written to, if `is_same` says so then.
    pub fn open(pid: u32) -> Result<Self, Problem> {
        let directory = format!("/proc/{pid}");
        let identity = Identity::of(&directory)?;
        let memory = File::options().read(true).write(true).open(format!("{directory}/mem"))?;
        let process = Self { pid, memory, identity };
        process.is_same().map(|()| process)
    }

    /// Whether it still runs the program that it ran; else `Changed`.
    pub fn is_same(&self) -> Result<(), Problem> {
        self.check_identity(&format!("/proc/{}", self.pid))
    }

    fn check_identity(&self, directory: &str) -> Result<(), Problem> {
        let is_same = Identity::of(directory)? == self.identity;
        is_same.then_some(()).ok_or(Problem::Changed)
    }

    /// Returns the auxiliary vector (auxv) that the kernel gave the program at its start.
    pub fn auxiliary(&self) -> &[u8] {
        &self.identity.auxiliary
    }

    /// Writes data of ours, which nobody executes. A program that is started at this moment gets none of it: its memory is another one.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Problem> {
        self.is_same()?;
        Ok(self.memory.write_all_at(bytes, address)?)
    }

    // Hazard, never seen: a thread that runs is in the middle of a write of more than a blocking pipe or socket has room for, of sendfile, or of
    // a read of /dev/zero. The stop makes that call return early with what it had done so far, as after any signal.
    /// Borrows one thread; `NoThread` if it will not do, also when it has stopped. One that `runs` may do later. One that does not stop is added
    /// to `stuck`: it may still be traced.
    pub(crate) fn attempt(
        &self,
        candidate: Candidate,
        call: &Call,
        is_safe: &mut dyn FnMut() -> Result<(), String>,
        stuck: &mut Vec<i32>,
    ) -> Result<Called, Problem> {
        let Candidate { tid, runs, .. } = candidate;
        let unfit = |why: &str| unfit(tid, why);
        let directory = format!("/proc/{}/task/{tid}", self.pid);
        let (signal, is_filtered) = self.look(candidate, &directory, call)?;
        let mut begin = Instant::now();
        // Whoever asks this program to end is heard when the thread has all back that is its own.
        let _deferred = Deferred::begin();
        let mut traced = Traced::seize(self.pid as i32, tid)?;
        traced.interrupt()?;
        if let Some(why) = wait_for_stop(&mut traced)? {
            if why == DOES_NOT_STOP {
                stuck.push(tid);
            }
            return Err(unfit(why));
        }
        // From now on it starts no other program, and if another thread does, this one is gone.
        self.check_identity(&directory)?;
        let registers = traced.registers()?;
        let filters = is_filtered.then(|| Filters::of(&traced));
        let may_restart =
            filters.as_ref().is_none_or(|of| of.as_ref().is_ok_and(Filters::allow_restart));
        let mut past = Resumption::of(&registers, may_restart);
        // Whatever comes: no EINTR because of us.
        traced.set_registers(&past.helped)?;
        check_children(self.pid, candidate)?;
        if let Some(filters) = filters {
            pass(&traced, filters, call)?;
        }
        if let Err(why) = self.check(&traced, &registers, call).and_then(|()| is_safe()) {
            // A filter would look at the system call that is put off as if it were another.
            let may_go_on = runs && !is_filtered;
            let later = may_go_on.then(|| self.go_on_to_entry(&mut traced, call)).transpose()?;
            past = later.flatten().ok_or_else(|| unfit(&why))?;
            begin = Instant::now();
            is_safe().map_err(|why| unfit(&why))?;
        }
        let name = threads::text(format!("{directory}/comm")).unwrap_or_default();
        let returned = self.run(&mut traced, &past, call, signal)?;
        let Returned { called, owed, data } = returned.ok_or(Problem::Unfinished(tid))?;
        traced.detach(owed);
        let stopped = begin.elapsed();
        Ok(Called { tid, name: name.trim_end().into(), stopped, called, data })
    }

    /// Before it is traced: a signal for its way back, if there is one, and whether filters look at its system calls.
    fn look(
        &self,
        candidate: Candidate,
        directory: &str,
        call: &Call,
    ) -> Result<(Option<i32>, bool), Problem> {
        let Candidate { tid, runs, may_be_parent } = candidate;
        let status = threads::text(format!("{directory}/status"));
        let status = status.map_err(|_| unfit(tid, "it ended"))?;
        let signal = threads::harmless_signal(&status);
        let is_filtered = self.is_filtered(tid, &status, call)?;
        if signal.is_none() && is_filtered {
            return Err(unfit(tid, "the program has handlers for SIGURG, SIGWINCH and SIGCHLD"));
        }
        if !runs && threads::waits_for_more(self.pid, tid) {
            return Err(unfit(tid, "it waits for more than one byte, and may have part of it"));
        }
        // It may have started a child since it was chosen. In this order: a thread that waits is not starting one, which no list would have yet.
        if !runs && !may_be_parent && threads::may_start_child(self.pid, tid) {
            return Err(unfit(tid, "it no longer waits"));
        }
        check_children(self.pid, candidate)?;
        Ok((signal, is_filtered))
    }

    /// Lets a thread that cannot be borrowed where it is run on to the next system call before which it can; `None` if there is none soon, or
    /// it is about to start a process.
    fn go_on_to_entry(
        &self,
        traced: &mut Traced,
        call: &Call,
    ) -> Result<Option<Resumption>, Problem> {
        let deadline = Instant::now() + STEP_LIMIT;
        let mut signal = 0;
        for _ in 0..MOST_CALLS {
            traced.go_on_to_call(signal)?;
            signal = match traced.wait(deadline)? {
                Some(Stop::Signal(signal)) => signal,
                Some(Stop::Event(libc::SIGTRAP)) => 0,
                Some(Stop::Call) => {
                    // Linux before 5.3 does not tell which of the two it is.
                    let Ok(is_entry) = traced.is_at_entry() else { return Ok(None) };
                    let registers = traced.registers()?;
                    let starts_process = threads::starts_process(registers.orig_rax as i64);
                    if is_entry && starts_process && !threads::is_alone(self.pid) {
                        return Ok(None);
                    }
                    if is_entry && self.may_begin_later(&registers, call) {
                        return Ok(Some(Resumption::at_entry(&registers)));
                    }
                    0
                }
                // It computes or waits: as at the first stop, it is not to see EINTR.
                None => {
                    traced.interrupt()?;
                    if wait_for_stop(traced)?.is_none() {
                        let registers = traced.registers()?;
                        traced.set_registers(&Resumption::of(&registers, true).helped)?;
                    }
                    return Ok(None);
                }
                Some(Stop::Event(_) | Stop::Exec | Stop::Gone) => return Ok(None),
            };
        }
        Ok(None)
    }

    /// Whether a thread can be borrowed before a system call that it has not begun yet.
    fn may_begin_later(&self, registers: &Registers, call: &Call) -> bool {
        let maps = Maps::of(self.pid, registers.rsp, registers.rip);
        let is_free =
            |word: u64, above: &[u8]| word != call.code.restorer || !frame::is_context(above);
        registers.cs == USER_CS
            && threads::may_come_later(registers.orig_rax as i64, call.are_locks_seen)
            && self.is_before_call(registers)
            && maps
                .stack_end(&self.memory, registers.rsp, registers.fs_base)
                .is_ok_and(|end| self.is_stack_free(registers.rsp, end, is_free))
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
        if threads::is_begun_again_by_number(self.pid, tid) {
            return Err(Problem::Seccomp(Seccomp::Refused("restart_syscall")));
        }
        Ok(true)
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
        if !self.is_before_call(registers) {
            return Err("it is no longer in a 64-bit system call".into());
        }
        if threads::rank(registers.orig_rax as i64, &arguments).is_none() {
            return Err("it no longer waits".into());
        }
        Ok(())
    }

    /// Whether the instruction that the thread has executed last is the one for system calls of 64-bit programs.
    fn is_before_call(&self, registers: &Registers) -> bool {
        let instruction = registers.rip.checked_sub(2).and_then(|at| self.read(at));
        instruction == Some(SYSCALL_INSTRUCTION)
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
        signal: Option<i32>,
    ) -> Result<Option<Returned>, Problem> {
        let registers = &resumption.alone;
        let extended_state = traced.extended_state()?;
        let blocked_signals = traced.blocked_signals()?;
        let past = Past { registers, extended_state: &extended_state, blocked_signals };
        let errno = call.code.errno_offset_at.and_then(|at| self.errno(at, registers.fs_base));
        let begin = Instant::now();
        let mut returned = Returned { called: Duration::ZERO, owed: 0, data: Vec::new() };
        for step in call.steps {
            if step.condition.is_some_and(|holds| !holds()) {
                returned.data.push(step.data.to_vec());
                continue;
            }
            let frame = frame::lay_out(&past, call.code, signal, step.data);
            self.memory.write_all_at(&frame.bytes, frame.start)?;
            // From here to the end, the thread is safe without us.
            let arguments: Vec<u64> =
                step.arguments.iter().map(|of| of.value(frame.data)).collect();
            let entry = frame::registers_at_entry(registers, step.function, &arguments, &frame);
            traced.set_registers(&entry)?;
            traced.set_blocked_signals(signals_blocked_meanwhile(blocked_signals, signal))?;
            let deadline = begin + CALL_LIMIT;
            let owed = match signal {
                Some(signal) => wait_for_return(traced, signal, frame.start, deadline)?,
                None => wait_for_way_back(traced, frame.context, deadline)?,
            };
            let Some(owed) = owed else { return Ok(None) };
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
        // Hazard, never seen: a program handles all harmless signals (Go), and a thread waits with a time-out while it is borrowed. There is no
        // `signal` then, and the time-out starts over.
        // Before a system call that is not made, the kernel does not begin another one again.
        let before_none = Registers { orig_rax: u64::MAX, ..resumption.alone };
        traced.set_registers(if signal.is_some() { &resumption.helped } else { &before_none })?;
        Ok(Some(returned))
    }

    /// Returns the address of the thread's errno, and its value.
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

pub(crate) fn unfit(tid: i32, why: &str) -> Problem {
    Problem::NoThread(Some(format!("thread {tid}: {why}")))
}

fn check_children(
    pid: u32,
    Candidate { tid, may_be_parent, .. }: Candidate,
) -> Result<(), Problem> {
    let is_spared = !may_be_parent && threads::is_told_of_children(pid, tid);
    if is_spared { Err(unfit(tid, "it has children")) } else { Ok(()) }
}

/// The result of the calls.
struct Returned {
    called: Duration,
    /// A signal that the thread is to get afterwards; 0 for none.
    owed: i32,
    data: Vec<Vec<u8>>,
}

fn signals_blocked_meanwhile(blocked: u64, signal: Option<i32>) -> u64 {
    let bit = |signal: i32| 1u64 << (signal - 1);
    let faults = FAULTS.iter().fold(0, |mask, &fault| mask | bit(fault));
    (!faults | blocked) & !signal.map_or(0, bit)
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
