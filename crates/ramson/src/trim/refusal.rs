//! Why there is no trim, or not this way.

use crate::doctor::target::Target;
use crate::failure::Failure;
use ramson_process::rights;
use std::io;

/// The end of messages where there is no other way.
pub const NOTHING: &str = "Nothing was done";

/// What stands in the way of a trim from outside.
pub enum Refusal {
    /// Asking inside would not help either.
    Final(Failure),
    /// It may: why, and what to do where it does not.
    Elsewhere(String, String),
}

impl Refusal {
    pub fn into_failure(self, target: &Target) -> Failure {
        match self {
            Self::Final(failure) => failure,
            Self::Elsewhere(why, next) => refused(target, &why, &next),
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Final(failure)
    }
}

pub fn elsewhere(why: &str, next: &str) -> Refusal {
    Refusal::Elsewhere(why.into(), next.into())
}

/// The kernel refuses the right to trace.
pub fn denied(target: &Target, error: &io::Error) -> Refusal {
    elsewhere(
        &format!("the kernel does not let it be traced{}: {error}", rights::scope()),
        &rights::next_step(target.pid),
    )
}

/// In one line: who, why, what next.
pub fn refused(target: &Target, why: &str, next: &str) -> Failure {
    Failure::failed(format!("process {} ({}): {why}. {next}", target.pid, target.name))
}
