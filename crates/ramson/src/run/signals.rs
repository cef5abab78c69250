//! What `ramson run` does with signals: it passes them on to the program, and ends as the program ended.

use ramson_reader::Way;
use rustix::process::{DumpableBehavior, Pid, getpgid, getpgrp, set_dumpable_behavior};
use signal_hook::consts::signal::*;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::process;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

/// What would end `ramson run` and leave its program behind, and what programs are told by signal. A timer that was set before exec, as by
/// `perl -e 'alarm 5; exec …'`, rings here, too.
const PASSED_ON: [i32; 16] = [
    SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT, SIGCONT,
    SIGXCPU, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR,
];
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;
/// The first ones are the C library's.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
/// What a person or a supervisor sends to be rid of a process.
const TO_END: [i32; 3] = [SIGINT, SIGQUIT, SIGTERM];

/// The terminal sends these to every process of the foreground process group, so the program gets them
/// without us. Programs count them: redis exits without saving at a second SIGINT.
const FROM_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];

fn caught() -> impl Iterator<Item = i32> {
    PASSED_ON.into_iter().chain(REAL_TIME)
}

/// Catches the signals that reach us from now on; they wait until this is sent the program's ID, and
/// go there until it is told how the program ended: then its ID may be another's, and what is to end
/// us means us. Before the program starts: a signal in between must not end us alone, and that there
/// may be no further thread is found out in time.
pub fn catch() -> io::Result<(Sender<u32>, Arc<OnceLock<Way>>)> {
    ramson_launch::block_signals();
    let signals = SignalsInfo::new(caught())?;
    let (program, started) = channel();
    let end = Arc::new(OnceLock::new());
    let its_end = end.clone();
    thread::Builder::new().spawn(move || pass_on(signals, &started, &its_end))?;
    Ok((program, end))
}

fn pass_on(mut signals: SignalsInfo<WithOrigin>, started: &Receiver<u32>, end: &OnceLock<Way>) {
    let Ok(pid) = started.recv() else { return };
    ramson_launch::unblock_signals(caught());
    for origin in signals.forever() {
        match end.get() {
            None if is_for_program(&origin, pid) => ramson_launch::send(pid, origin.signal),
            Some(&way) if TO_END.contains(&origin.signal) => {
                process::exit(end_alike(way).into());
            }
            _ => {}
        }
    }
}

/// Not what the program has sent, nor what we raise ourselves when we fail, nor what it hears without us.
fn is_for_program(origin: &Origin, pid: u32) -> bool {
    let is_from = |pid: u32| origin.process.as_ref().is_some_and(|sender| sender.pid as u32 == pid);
    if is_from(pid) || is_from(process::id()) {
        return false;
    }
    let group = Pid::from_raw(pid as i32).and_then(|pid| getpgid(Some(pid)).ok());
    let is_in_our_group = group == Some(getpgrp());
    let is_typed = FROM_TERMINAL.contains(&origin.signal) && origin.cause == Cause::Kernel;
    !(is_typed && is_in_our_group)
}

/// Ends this process by the signal that ended the program, so that the process that waits for us
/// sees the same; else returns the status, which is 128 + N for signal N.
pub fn end_alike(way: Way) -> u8 {
    let signal = match way {
        Way::Exited(status) => return status as u8,
        Way::Replaced | Way::Copied => return 0,
        Way::Signalled(signal) => signal as i32,
    };
    ramson_apart::end_all();
    // The core is the program's, not ours.
    if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok() {
        ramson_launch::end_by(signal);
    }
    128 + signal as u8
}
