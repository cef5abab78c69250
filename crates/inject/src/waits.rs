//! Until a thread has stopped, or has come back from a call.

use crate::resumption::Resumption;
use crate::trace::{Registers, Stop, Traced, cannot_stop, has_ended};
use std::io::{Error, Result};
use std::time::{Duration, Instant};

/// Stack of `raise` at most.
const RAISE_BYTES: u64 = 4096;
/// A thread that waits stops at once.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks whether a thread that must not be left can still stop.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// See `wait_for_stop`.
pub const DOES_NOT_STOP: &str = "it does not stop";

/// Why the thread cannot be used, if so.
pub fn wait_for_stop(traced: &mut Traced) -> Result<Option<&'static str>> {
    wait_for_stop_until(traced, Instant::now() + STOP_LIMIT)
}

/// The same until then.
pub fn wait_for_stop_until(traced: &mut Traced, deadline: Instant) -> Result<Option<&'static str>> {
    loop {
        match traced.wait(deadline)? {
            Some(Stop::Event(libc::SIGTRAP)) => return Ok(None),
            Some(Stop::Event(_)) => return Ok(Some("the process is stopped")),
            Some(Stop::Call) => ask_again(traced, 0)?,
            Some(Stop::Signal(signal)) => ask_again(traced, signal)?,
            Some(Stop::Exec) => return Ok(Some("it now runs another program (exec)")),
            Some(Stop::Gone) => return Ok(Some("it ended")),
            None => return Ok(Some(DOES_NOT_STOP)),
        }
    }
}

/// Asks for the stop again, because any stop takes the place of the one that was asked for. The thread's system call may say EINTR because of
/// that stop, which the thread has to be kept from.
fn ask_again(traced: &mut Traced, signal: i32) -> Result<()> {
    traced.interrupt()?;
    traced.go_on(signal)
}

/// Has a thread that runs stop, however long that takes, so that it can be let go as if it had not been stopped: one that does not stop soon may be
/// in a machine or a control group that stands still. One that cannot be stopped is left if this process ends soon, and then goes on by itself.
pub fn stop_for_good(traced: &mut Traced, ends_soon: bool) -> Result<()> {
    traced.interrupt()?;
    while traced.is_running() && !has_ended(traced.tid()) {
        match traced.wait(Instant::now() + BETWEEN_LOOKS)? {
            // The system call that was stopped is not to say EINTR.
            Some(Stop::Event(libc::SIGTRAP)) => {
                let registers = traced.registers()?;
                traced.set_registers(&Resumption::of(&registers, true).helped)?;
            }
            Some(Stop::Signal(signal)) => ask_again(traced, signal)?,
            Some(Stop::Call) => ask_again(traced, 0)?,
            None if ends_soon && cannot_stop(traced.tid()) => return Ok(()),
            Some(Stop::Event(_) | Stop::Exec | Stop::Gone) | None => {}
        }
    }
    Ok(())
}

/// Lets the thread run until it has raised `signal`. Returns a signal that it is owed, 0 for none; `None` if it does not come back.
pub fn wait_for_return(
    traced: &mut Traced,
    signal: i32,
    start: u64,
    deadline: Instant,
) -> Result<Option<i32>> {
    let mut owed = 0;
    let mut passed_on = 0;
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
            Some(Stop::Event(_) | Stop::Call) => 0,
            // The program that it ran is gone: nothing of that program's may be written to the one that it runs now.
            Some(Stop::Exec | Stop::Gone) => return Err(Error::from_raw_os_error(libc::ESRCH)),
            // It will find its way by itself, once it is not traced any more.
            None => return Ok(None),
        };
    }
}

/// The same where it raises no signal: until it is about to make the system call that gives it back all registers, those at `context`.
pub fn wait_for_way_back(
    traced: &mut Traced,
    context: u64,
    deadline: Instant,
) -> Result<Option<i32>> {
    let mut passed_on = 0;
    loop {
        traced.go_on_to_call(passed_on)?;
        passed_on = match traced.wait(deadline)? {
            Some(Stop::Signal(signal)) => signal,
            Some(Stop::Event(_)) => 0,
            Some(Stop::Call) => {
                let registers = traced.registers()?;
                let is_it = registers.orig_rax as i64 == libc::SYS_rt_sigreturn;
                if is_it && registers.rsp == context && traced.is_at_entry()? {
                    return Ok(Some(0));
                }
                0
            }
            Some(Stop::Exec | Stop::Gone) => return Err(Error::from_raw_os_error(libc::ESRCH)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{status_of, waits_for_events};

    #[test]
    fn abandoned_interrupt_leaves_wait_alone() {
        let pid = waits_for_events(Duration::from_secs(2));
        while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        let traced = Traced::seize(pid, pid).unwrap();
        traced.interrupt().unwrap();
        // Before it was seen to stop.
        drop(traced);
        assert_eq!(status_of(pid), 0);
    }

    #[test]
    fn syscall_tracing_leaves_wait_alone() {
        let pid = waits_for_events(Duration::from_secs(2));
        let soon = || Instant::now() + Duration::from_secs(60);
        let mut traced = Traced::seize(pid, pid).unwrap();
        let let_go_on = |traced: &Traced| {
            let registers = traced.registers().unwrap();
            traced.set_registers(&Resumption::of(&registers, true).helped).unwrap();
        };
        traced.interrupt().unwrap();
        assert!(wait_for_stop(&mut traced).unwrap().is_none());
        let_go_on(&traced);
        // To the entry of a wait, and into it.
        loop {
            traced.go_on_to_call(0).unwrap();
            assert_eq!(traced.wait(soon()).unwrap(), Some(Stop::Call));
            let number = traced.registers().unwrap().orig_rax as i64;
            if traced.is_at_entry().unwrap() && number == libc::SYS_epoll_wait {
                break;
            }
        }
        traced.go_on_to_call(0).unwrap();
        assert_eq!(traced.wait(Instant::now() + Duration::from_millis(100)).unwrap(), None);
        traced.interrupt().unwrap();
        assert!(wait_for_stop(&mut traced).unwrap().is_none());
        let_go_on(&traced);
        drop(traced);
        assert_eq!(status_of(pid), 0);
    }
}
