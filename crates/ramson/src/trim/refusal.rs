//! Why there is no trim.

use crate::doctor::rights;
use crate::doctor::target::Target;
use crate::failure::Failure;
use std::io;

/// The end of messages where there is nothing to advise.
pub const NOTHING: &str = "Nothing was done";

/// The kernel refuses the right to trace.
pub fn denied(target: &Target, error: &io::Error) -> Failure {
    refused(
        target,
        &format!("the kernel does not let it be traced{}: {error}", rights::scope()),
        &rights::next_step(target.pid),
    )
}

/// In one line: who, why, what next.
pub fn refused(target: &Target, why: &str, next: &str) -> Failure {
    Failure::failed(format!("process {} ({}): {why}. {next}", target.pid, target.name))
}
