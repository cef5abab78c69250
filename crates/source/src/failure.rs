//! How commands fail: one line that names the object, the finding and the next step, and an exit status.

use ramson_profile::printable;
use std::fmt;
use std::io;

/// Exit statuses: 1 failed, 2 usage, 5 not found or not profiled; `run` has 125, 126 and 127 besides.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our output went away: a success.
    ClosedPipe,
    /// With an exit status.
    Message(u8, String),
    /// A file that is no profile: status 1.
    NoProfile {
        /// Its name.
        object: String,
        /// What its first bytes are like.
        finding: String,
        /// What to do instead.
        next: String,
    },
    /// With an exit status, and rows below the message of which the user is to choose one.
    Choice(u8, String, Vec<String>),
    /// The request leaves nothing of what is there: status 1.
    NothingLeft(String),
}

impl Failure {
    /// Status 1. The message has object, finding and next step.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Message(1, message.into())
    }

    /// Status 2: the words of the command are wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Message(2, message.into())
    }

    /// Status 5: not found, or not profiled.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::Message(5, message.into())
    }

    /// The exit status of the command.
    pub fn status(&self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::Message(status, _) | Self::Choice(status, ..) => *status,
            Self::NothingLeft(_) | Self::NoProfile { .. } => 1,
        }
    }

    /// The message without anything that a file that is no profile holds: it may be a secret.
    pub fn without_content(&self) -> String {
        match self {
            Self::NoProfile { object, next, .. } => {
                printable(&format!("{object}: not a profile. {next}")).into_owned()
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::ClosedPipe => write!(f, "the output was closed"),
            // Names of foreign files and processes may be in it.
            Self::Message(_, message) | Self::NothingLeft(message) => {
                f.write_str(&printable(message))
            }
            Self::NoProfile { object, finding, next } => {
                f.write_str(&printable(&format!("{object}: {finding}. {next}")))
            }
            Self::Choice(_, message, rows) => {
                f.write_str(&printable(message))?;
                rows.iter().try_for_each(|row| write!(f, "\n{}", printable(row)))
            }
        }
    }
}

/// For writing results; reading errors get a message of their own where they happen.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::failed(format!(
                "cannot write the output: {error}. Check the disk and the destination"
            )),
        }
    }
}
