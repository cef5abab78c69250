//! Processes of another user that are there to harm root's ramson (`tests/programs/stranger.c`), and what it costs to look at them.

use crate::program;
use crate::servers::*;
use crate::trimming::Talking;
use std::path::Path;
use std::process::Command;

/// No user of this machine.
pub const STRANGER: u32 = 1501;
/// Exit status of `timeout` if the time was up.
const TIMED_OUT: i32 = 124;
/// Runs a command for so many seconds at most; says last what it cost.
const MEASURE: &str = "
import resource, subprocess, sys
try:
    status = subprocess.run(sys.argv[2:], timeout=float(sys.argv[1])).returncode
except subprocess.TimeoutExpired:
    status = 124
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, file=sys.stderr)
";

/// `command` as the stranger.
pub fn as_stranger(command: &Command) -> Command {
    let is_root = rustix::process::getuid().is_root();
    assert!(is_root, "only root has strangers: run this test as root");
    let mut changed = clean(installed("setpriv", "util-linux"));
    changed.args([format!("--reuid={STRANGER}"), format!("--regid={STRANGER}")]);
    changed.args(["--clear-groups", "--"]).arg(command.get_program()).args(command.get_args());
    changed
}

/// A copy of a test program that the stranger may run, under this name.
pub fn copied(scratch: &Scratch, source: &Path, name: &str) -> std::path::PathBuf {
    let copied = scratch.open_directory("bin").join(name);
    if !copied.exists() {
        copy(source, &copied);
    }
    copied
}

/// Starts `stranger HOW DIRECTORY`, and waits until it has done its harm.
#[track_caller]
pub fn stranger(scratch: &Scratch, how: &str, arguments: &[&str]) -> Talking {
    let mut command = clean(copied(scratch, &program("stranger.c"), "stranger"));
    command.arg(how).arg(scratch.open_directory(how)).args(arguments);
    let talking = Talking::start(&mut as_stranger(&command));
    talking.expect("ready");
    talking
}

/// The output and the costs of a command.
#[derive(Debug)]
pub struct Cost {
    /// `None` if it was still running after a minute.
    pub status: Option<i32>,
    /// CPU time, user and system together.
    pub seconds: f64,
    /// Resident at most.
    pub peak_bytes: f64,
    /// Its output, standard error last.
    pub text: String,
}

/// Runs a command to its end.
pub fn cost(command: &Command) -> Cost {
    cost_within(command, 60)
}

/// Runs a command for so long at most.
pub fn cost_within(command: &Command, most_seconds: u32) -> Cost {
    let mut measured = clean(python());
    measured.args(["-c", MEASURE, &most_seconds.to_string()]);
    measured.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => measured.env(name, value),
            None => measured.env_remove(name),
        };
    }
    let Outcome { stdout, stderr, remarks, .. } = finish(&mut measured).good();
    let said = stderr.trim_end().rsplit_once('\n').map_or("", |(said, _)| said);
    let last = stderr.trim_end().rsplit('\n').next().unwrap_or_default();
    let mut numbers = last.split(' ').map(|number| number.parse::<f64>().expect("a cost"));
    let mut number = || numbers.next().expect("three numbers");
    let status = Some(number() as i32).filter(|&status| status != TIMED_OUT);
    let text = format!("{}{}{said}", String::from_utf8_lossy(&stdout), remarks.concat());
    Cost { status, seconds: number(), peak_bytes: number(), text }
}
