//! Signals of `ramson run`: it passes them on to the program, and ends as the program ended.

use ramson_process::{stat, text};
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
use std::time::{Duration, Instant};

/// Signals that would end `ramson run` and leave its program behind, and signals that tell programs something. A timer that was set
/// before exec, as by `perl -e 'alarm 5; exec …'`, rings here, too.
const PASSED_ON: [i32; 16] = [
    SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT, SIGCONT,
    SIGXCPU, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR,
];
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;
/// The first ones are the C library's.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;
/// Signals that a person or a supervisor sends to end a process.
const TO_END: [i32; 3] = [SIGINT, SIGQUIT, SIGTERM];

/// Programs count these: redis exits without saving at a second SIGINT. A terminal sends them to the whole
/// foreground process group, and so does timeout(1), beside one to us: then the program gets them without us.
const COUNTED: [i32; 2] = [SIGINT, SIGQUIT];
/// A sender of one to us and one to the group sends them this close together.
const TOGETHER: Duration = Duration::from_millis(20);

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
    let mut group = Group::new();
    ramson_launch::unblock_signals(caught());
    for origin in signals.forever() {
        match end.get() {
            None if is_for_program(&origin, pid, &mut group) => {
                ramson_launch::send(pid, origin.signal);
            }
            Some(&way) if TO_END.contains(&origin.signal) => {
                process::exit(end_alike(way).into());
            }
            _ => {}
        }
    }
}

/// Not what the program has sent, nor what we raise ourselves when we fail, nor what it gets without us.
fn is_for_program(origin: &Origin, pid: u32, group: &mut Group) -> bool {
    let is_from = |pid: u32| origin.process.as_ref().is_some_and(|sender| sender.pid as u32 == pid);
    if is_from(pid) || is_from(process::id()) {
        return false;
    }
    let its_group = Pid::from_raw(pid as i32).and_then(|pid| getpgid(Some(pid)).ok());
    let is_in_ours = its_group == Some(getpgrp());
    !(COUNTED.contains(&origin.signal) && is_in_ours && group.has_got(origin))
}

/// Tells which signals went to our whole process group: those that a process got that nobody knows of.
struct Group {
    witness: Option<u32>,
    last: Option<(i32, Instant)>,
}

impl Group {
    fn new() -> Self {
        Self { witness: ramson_launch::start_witness().ok(), last: None }
    }

    fn has_got(&mut self, origin: &Origin) -> bool {
        // A terminal sends them to its whole foreground group.
        let is_terminals = origin.cause == Cause::Kernel;
        if is_terminals || self.is_with_witness(origin.signal) {
            self.last = (!is_terminals).then(|| (origin.signal, Instant::now()));
            self.replace_witness();
            return true;
        }
        // The next witness may have taken longer than that.
        self.last.is_some_and(|(signal, at)| signal == origin.signal && at.elapsed() < TOGETHER)
    }

    fn is_with_witness(&self, signal: i32) -> bool {
        let Some(witness) = self.witness else { return false };
        // The one to the group may come second.
        thread::sleep(TOGETHER / 4);
        pending(witness).is_some_and(|set| set >> (signal - 1) & 1 == 1)
    }

    /// A signal stays pending there, so the next one needs another witness.
    fn replace_witness(&mut self) {
        if let Some(witness) = self.witness {
            ramson_launch::send(witness, SIGKILL);
            let _ = ramson_launch::reap(witness);
            self.witness = ramson_launch::start_witness().ok();
        }
    }
}

/// The signals that wait for a process, signal 1 in the lowest bit.
fn pending(pid: u32) -> Option<u64> {
    let status = text::read(format!("/proc/{pid}/status")).ok()?;
    u64::from_str_radix(stat::line(&status, "ShdPnd")?, 16).ok()
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
