//! ptrace(2) and what goes with it.
//!
//! A thread is traced by the thread that seized it; if that one dies, the kernel detaches.

use crate::waits::stop_for_good;
use std::fs;
use std::io::{Error, Result};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

/// Registers as the kernel keeps them while the thread is stopped.
pub type Registers = libc::user_regs_struct;

const NT_X86_XSTATE: usize = 0x202;
const PTRACE_EVENT_STOP: i32 = 128;
/// More than any program may install.
const MOST_INSTRUCTIONS: usize = 1 << 15;
/// More than any processor has (AMX: 11 KiB).
const MOST_XSTATE_BYTES: usize = 64 << 10;
const KCMP_VM: usize = 1;
/// Linux 5.13 and later.
const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;
/// Linux 5.3 and later.
const PTRACE_GET_SYSCALL_INFO: u32 = 0x420e;
/// First byte of its answer at the entry of a system call.
const INFO_ENTRY: u64 = 1;
/// Bit that a stop at a system call has in addition to SIGTRAP.
const AT_CALL: i32 = 0x80;
const OPTIONS: i32 = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
/// Linux 4.4 and later, with CONFIG_CHECKPOINT_RESTORE.
const PTRACE_SECCOMP_GET_FILTER: u32 = 0x420c;

/// How long a stop is waited for without a timer.
const SOON: Duration = Duration::from_micros(100);

/// Whether this process ends soon.
static ENDS_SOON: AtomicBool = AtomicBool::new(false);

/// Says that this process ends soon after a call that failed. The kernel lets go of what it traces then, so that nothing is waited for that may never
/// come.
pub fn will_end_soon() {
    ENDS_SOON.store(true, Ordering::Relaxed);
}

/// A thread that this one traces, until it is dropped.
pub struct Traced {
    tid: i32,
    /// Whether it is the first of its process, whose end is its parent's to know.
    is_leader: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// About to get this signal, if it is not 0.
    Stopped(i32),
    Gone,
}

/// Why a traced thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Because we asked, or with it a stop of the whole process by this signal.
    Event(i32),
    /// It is about to get this signal.
    Signal(i32),
    /// It begins a system call, or is done with it.
    Call,
    /// It has started another program.
    Exec,
    /// It is gone.
    Gone,
}

impl Traced {
    /// Starts to trace a thread of process `pid`, which runs on.
    pub fn seize(pid: i32, tid: i32) -> Result<Self> {
        request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize)?;
        Ok(Self { tid, is_leader: pid == tid, state: State::Running })
    }

    /// Has no filter of system calls looked at until it is let go.
    pub fn suspend_seccomp(&self) -> Result<()> {
        let options = OPTIONS | libc::PTRACE_O_SUSPEND_SECCOMP;
        request(libc::PTRACE_SETOPTIONS, self.tid, 0, options as usize)
    }

    /// One of its filters of system calls, the newest first; `None` behind the oldest.
    pub fn seccomp_filter(&self, index: usize) -> Result<Option<Vec<libc::sock_filter>>> {
        let none = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
        let mut filter = vec![none; MOST_INSTRUCTIONS];
        let data = filter.as_mut_ptr() as usize;
        match answer(PTRACE_SECCOMP_GET_FILTER, self.tid, index, data) {
            Ok(length) => {
                filter.truncate(length);
                Ok(Some(filter))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Has it stop; `wait` tells when it has.
    pub fn interrupt(&self) -> Result<()> {
        request(libc::PTRACE_INTERRUPT, self.tid, 0, 0)
    }

    /// Lets it run on, with a signal if not 0.
    pub fn go_on(&mut self, signal: i32) -> Result<()> {
        request(libc::PTRACE_CONT, self.tid, 0, signal as usize)?;
        self.state = State::Running;
        Ok(())
    }

    /// The same until it begins a system call, or is done with one.
    pub fn go_on_to_call(&mut self, signal: i32) -> Result<()> {
        request(libc::PTRACE_SYSCALL, self.tid, 0, signal as usize)?;
        self.state = State::Running;
        Ok(())
    }

    /// Whether what it has stopped for is a system call that it begins; fails where the kernel does not tell.
    pub fn is_at_entry(&self) -> Result<bool> {
        // `struct ptrace_syscall_info`: one byte, then what is of no interest.
        let mut found = [0u64; 16];
        let address = &raw mut found as usize;
        request(PTRACE_GET_SYSCALL_INFO, self.tid, size_of_val(&found), address)?;
        Ok(found[0] & 0xff == INFO_ENTRY)
    }

    /// Lets go of it, with a signal if not 0.
    pub fn detach(mut self, signal: i32) {
        self.state = State::Stopped(signal);
    }

    /// Waits for the next stop; `None` if there is none until `deadline`.
    pub fn wait(&mut self, deadline: Instant) -> Result<Option<Stop>> {
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        // How the first thread ended is its parent's to know; its stops need not be taken away.
        let keep = if self.is_leader { libc::WNOWAIT } else { 0 };
        loop {
            if let Some((kind, status)) = look(self.tid, libc::WSTOPPED | libc::WEXITED | keep)? {
                let (state, stop) = meaning(kind, status);
                self.state = state;
                return Ok(Some(stop));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            if begin.elapsed() < SOON {
                yield_now();
                continue;
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }

    /// Whether it runs, as far as is known.
    pub fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// Which thread it is.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// The registers of the stopped thread.
    pub fn registers(&self) -> Result<Registers> {
        // SAFETY: all zero is a valid value of a structure of integers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.tid, 0, &raw mut registers as usize)?;
        Ok(registers)
    }

    /// Sets them.
    pub fn set_registers(&self, registers: &Registers) -> Result<()> {
        request(libc::PTRACE_SETREGS, self.tid, 0, ptr::from_ref(registers) as usize)
    }

    /// The rest of the processor's state, as XSAVE writes it.
    pub fn extended_state(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; MOST_XSTATE_BYTES];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let address = &raw mut vector as usize;
        request(libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, address)?;
        bytes.truncate(vector.iov_len);
        Ok(bytes)
    }

    /// Sets it.
    pub fn set_extended_state(&self, bytes: &[u8]) -> Result<()> {
        let iov_base = bytes.as_ptr().cast_mut().cast();
        let vector = libc::iovec { iov_base, iov_len: bytes.len() };
        request(libc::PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, &raw const vector as usize)
    }

    /// Returns the address at which the thread and the kernel tell each other of restartable sequences; `None` if they do not.
    pub fn restartable_sequences(&self) -> Result<Option<u64>> {
        // `struct ptrace_rseq_configuration`: the address, then what is of no interest.
        let mut found = [0u64; 3];
        let address = &raw mut found as usize;
        request(PTRACE_GET_RSEQ_CONFIGURATION, self.tid, size_of_val(&found), address)?;
        Ok(Some(found[0]).filter(|&address| address != 0))
    }

    /// The signals that it blocks, or would if it did not wait with others blocked.
    pub fn blocked_signals(&self) -> Result<u64> {
        let mut mask = 0u64;
        request(libc::PTRACE_GETSIGMASK, self.tid, size_of::<u64>(), &raw mut mask as usize)?;
        Ok(mask)
    }

    /// Sets them.
    pub fn set_blocked_signals(&self, mask: u64) -> Result<()> {
        let address = &raw const mask as usize;
        request(libc::PTRACE_SETSIGMASK, self.tid, size_of::<u64>(), address)
    }
}

impl Drop for Traced {
    /// Only a thread that is stopped can be let go; one that we left to stop alone would stay so.
    fn drop(&mut self) {
        if self.is_running() {
            // Fails only if there is nothing to wait for.
            let _ = stop_for_good(self, ENDS_SOON.load(Ordering::Relaxed));
        }
        if let State::Stopped(signal) = self.state {
            // It may be gone.
            let _ = request(libc::PTRACE_DETACH, self.tid, 0, signal as usize);
        }
    }
}

/// Interprets `si_code` and `si_status` of waitid(2) for a traced thread.
fn meaning(kind: i32, status: i32) -> (State, Stop) {
    if matches!(kind, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
        return (State::Gone, Stop::Gone);
    }
    let signal = status & 0x7f;
    match status >> 8 {
        0 if status == libc::SIGTRAP | AT_CALL => (State::Stopped(0), Stop::Call),
        PTRACE_EVENT_STOP => (State::Stopped(0), Stop::Event(signal)),
        libc::PTRACE_EVENT_EXEC => (State::Stopped(0), Stop::Exec),
        _ => (State::Stopped(signal), Stop::Signal(signal)),
    }
}

/// Whether a thread is gone, or a zombie: waitid(2) tells nothing of the first thread that ended before the others.
pub fn has_ended(tid: i32) -> bool {
    state(tid).is_none_or(|state| b"ZX".contains(&state))
}

/// Whether it waits in the kernel for what no stop interrupts.
pub fn cannot_stop(tid: i32) -> bool {
    state(tid) == Some(b'D')
}

/// As proc(5) has it.
fn state(tid: i32) -> Option<u8> {
    // Not as text: the thread's name may contain anything.
    let stat = fs::read(format!("/proc/{tid}/stat")).ok()?;
    stat.rsplit(|&byte| byte == b')').next()?.get(1).copied()
}

/// Returns `si_code` and `si_status` of waitid(2) if one of these `kinds` of events has happened to a traced thread.
fn look(tid: i32, kinds: i32) -> Result<Option<(i32, i32)>> {
    // SAFETY: all zero is a valid value of a structure of integers.
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = kinds | libc::WNOHANG | libc::__WALL;
    // SAFETY: the kernel writes one structure through the pointer, which is valid for the call.
    let result = unsafe { libc::waitid(libc::P_PID, tid as u32, &raw mut found, flags) };
    if result == -1 {
        return Err(Error::last_os_error());
    }
    // SAFETY: for waitid these fields are set, or zero if there was nothing.
    let (pid, status) = unsafe { (found.si_pid(), found.si_status()) };
    Ok((pid != 0).then_some((found.si_code, status)))
}

fn request(number: u32, tid: i32, address: usize, data: usize) -> Result<()> {
    answer(number, tid, address, data).map(|_| ())
}

/// `address` and `data` are what the request of that number takes.
fn answer(number: u32, tid: i32, address: usize, data: usize) -> Result<usize> {
    // SAFETY: of all requests that are made here, the kernel writes to our memory only for those that get something, through a pointer to a
    // live variable of the size that the request has or is told; none maps or frees anything of ours. A filter of system calls has no more
    // instructions than the vector that it is copied to.
    let result = unsafe { libc::ptrace(number, tid, address, data) };
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

/// While this lives, the signals that ask a program to end wait for this thread.
pub struct Deferred {
    before: libc::sigset_t,
}

impl Deferred {
    pub fn begin() -> Self {
        // SAFETY: all zero is a valid value of a set of signals; each call writes to one through a pointer that is valid for it.
        unsafe {
            let mut signals = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut signals, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        // SAFETY: the kernel reads one set of signals through a pointer that is valid for the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

/// Whether two processes have one address space, as after vfork; false where the kernel does not say.
pub fn share_memory(one: i32, other: i32) -> bool {
    // SAFETY: kcmp takes integers and touches no memory.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    order == 0
}

/// A process that waits for events so long, once, and ends with 9 if it is interrupted.
#[cfg(test)]
pub fn waits_for_events(time: Duration) -> i32 {
    // SAFETY: the child makes system calls alone, and writes through a pointer to a variable of its own.
    unsafe {
        let set = libc::epoll_create1(0);
        let pid = libc::fork();
        if pid == 0 {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            let found = libc::epoll_wait(set, &raw mut event, 1, time.as_millis() as i32);
            libc::_exit(if found == 0 { 0 } else { 9 });
        }
        pid
    }
}

/// How a child ended.
#[cfg(test)]
pub fn status_of(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the kernel writes one integer through the pointer.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    libc::WEXITSTATUS(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_is_not_an_end() {
        let stopped = meaning(libc::CLD_TRAPPED, libc::SIGUSR1);
        assert!(stopped == (State::Stopped(libc::SIGUSR1), Stop::Signal(libc::SIGUSR1)));
        let call = meaning(libc::CLD_TRAPPED, libc::SIGTRAP | AT_CALL);
        assert!(call == (State::Stopped(0), Stop::Call));
        let asked = meaning(libc::CLD_TRAPPED, libc::SIGTRAP | PTRACE_EVENT_STOP << 8);
        assert!(asked == (State::Stopped(0), Stop::Event(libc::SIGTRAP)));
        let started = meaning(libc::CLD_TRAPPED, libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8);
        assert!(started == (State::Stopped(0), Stop::Exec));
        for kind in [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED] {
            assert!(meaning(kind, libc::SIGUSR1) == (State::Gone, Stop::Gone));
        }
    }

    #[test]
    fn missing_thread_has_ended() {
        assert!(has_ended(i32::MAX));
        assert!(!has_ended(std::process::id() as i32));
    }

    #[test]
    fn exec_is_noticed_before_it_runs() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut shell = Command::new("sh");
        // A program that the loader sets up after a register was spoilt would not come to print anything.
        shell.args(["-c", "read line; exec echo unharmed"]).stdin(Stdio::piped());
        let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let mut traced = Traced::seize(pid, pid).unwrap();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let stop = traced.wait(Instant::now() + Duration::from_secs(60)).unwrap();
        assert_eq!(stop, Some(Stop::Exec));
        drop(traced);
        assert_eq!(child.wait_with_output().unwrap().stdout, b"unharmed\n");
    }
}
