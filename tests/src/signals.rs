//! Signals to programs under test.

use crate::servers::clean;
use std::process::Command;

/// `command` without the signals that whoever runs the tests ignores, which a shell could not trap.
pub fn with_default_signals(command: &Command) -> Command {
    let mut changed = clean("env");
    changed.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    changed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    changed
}

/// Sends a signal to a process.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.unwrap().success(), "kill -{name} {pid}");
}
