//! What `ramson run` does with signals: it passes them on to the program, and ends as the program ended.

use ramson_reader::Way;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use signal_hook::consts::signal::*;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::process;
use std::sync::{Arc, OnceLock};

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
/// Those from the keyboard reach the program by themselves; we only must outlive them.
const FROM_KEYBOARD: [i32; 2] = [SIGINT, SIGQUIT];
/// What a person or a supervisor sends to be rid of a process.
const TO_END: [i32; 3] = [SIGINT, SIGQUIT, SIGTERM];

/// The signals that reach us from now on.
pub struct Caught(SignalsInfo<WithOrigin>);

impl Caught {
    /// Before the program starts: a signal in between must not end us alone.
    pub fn begin() -> io::Result<Self> {
        let signals = PASSED_ON.into_iter().chain(REAL_TIME);
        SignalsInfo::new(signals).map(Self)
    }

    /// Sends the program what is sent to us; how it ended is to be put into what this returns. From then on its process ID may be another's,
    /// and who wants us to end means us.
    pub fn pass_on(mut self, pid: u32) -> Arc<OnceLock<Way>> {
        let end = Arc::new(OnceLock::new());
        let its_end = end.clone();
        std::thread::spawn(move || {
            ramson_launch::unblock_signals();
            for origin in self.0.forever() {
                match its_end.get() {
                    None if is_for_program(&origin) => ramson_launch::send(pid, origin.signal),
                    Some(&way) if TO_END.contains(&origin.signal) => {
                        process::exit(end_alike(way).into())
                    }
                    _ => {}
                }
            }
        });
        end
    }
}

/// Not what the keyboard sent, nor what we raise ourselves when we fail.
fn is_for_program(origin: &Origin) -> bool {
    let is_own = origin.process.as_ref().is_some_and(|sender| sender.pid as u32 == process::id());
    let is_typed = FROM_KEYBOARD.contains(&origin.signal) && origin.cause == Cause::Kernel;
    !is_own && !is_typed
}

/// Ends this process by the signal that ended the program, so that whoever waits for us sees the same; else returns the status, which is
/// 128 + N for signal N.
pub fn end_alike(way: Way) -> u8 {
    let signal = match way {
        Way::Exited(status) => return status as u8,
        Way::Replaced => return 0,
        Way::Signalled(signal) => signal as i32,
    };
    // The core is the program's, not ours.
    if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_ok() {
        ramson_launch::end_by(signal);
    }
    128 + signal as u8
}
