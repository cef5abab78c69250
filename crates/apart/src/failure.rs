//! Why a worker gave no answer.

use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Why an input was not read. Displays as a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// More than so many bytes of memory.
    Memory(u64),
    /// More than so much time.
    Time(Duration),
    /// The input did not answer for so long.
    Stuck(Duration),
    /// The worker was ended by this signal.
    Signal(i32),
    /// The reader itself failed.
    Broken,
    /// There is no worker.
    NotStarted(String),
    /// The process that it was to look at has ended.
    Gone,
    /// The root directory of the process may not be entered.
    Denied,
    /// The worker's answer is not a valid one.
    BadAnswer,
    /// Earlier inputs of the same owner, files or processes, have used up what all of them together may take.
    UsedUp,
}

impl Failure {
    /// Returns the next step for the user, as a sentence without its full stop.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Memory(_) | Self::Time(_) => {
                "Allow more memory and time for each input, as in --budget 2G,60s"
            }
            Self::UsedUp => {
                "Name fewer processes, or allow more for each input, as in --budget 2G,60s"
            }
            Self::Signal(_) | Self::Stuck(_) => "Try again",
            Self::NotStarted(_) => "Run ramson as the owner",
            Self::Gone => "\"ramson list\" shows whether it left a profile",
            Self::Denied => "Run ramson on the host, or in the process's own container",
            Self::Broken | Self::BadAnswer => "Report it as a bug",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Memory(bytes) => {
                write!(f, "reading it takes more than the {} MiB of memory allowed", bytes >> 20)
            }
            Self::Time(time) => {
                write!(f, "reading it takes more than the {} s allowed", seconds(time))
            }
            Self::Stuck(time) => write!(f, "it did not answer in {} s", seconds(time)),
            Self::Signal(number) => {
                write!(f, "the process that read it was ended by signal {number}")
            }
            Self::Broken => f.write_str("the process that read it failed"),
            Self::Gone => f.write_str("it ended while ramson was reading it"),
            Self::Denied => f.write_str("the kernel denies access to its root directory"),
            Self::NotStarted(why) => {
                write!(f, "ramson could not start a process to read it ({why})")
            }
            Self::BadAnswer => f.write_str("the process that read it gave an invalid answer"),
            Self::UsedUp => {
                f.write_str("not read: earlier inputs of its owner have used up the time allowed")
            }
        }
    }
}

/// In tenths, if it is that long: some of what is allowed may be used up.
fn seconds(time: &Duration) -> f64 {
    const TENTHS: f64 = 10.0;
    let seconds = time.as_secs_f64();
    if seconds < 1.0 / TENTHS { seconds } else { (seconds * TENTHS).round() / TENTHS }
}

impl std::error::Error for Failure {}

/// Writes nothing: a worker that had no answer itself tells nothing.
impl BorshSerialize for Failure {
    fn serialize<W: Write>(&self, _: &mut W) -> io::Result<()> {
        Ok(())
    }
}

impl BorshDeserialize for Failure {
    fn deserialize_reader<R: Read>(_: &mut R) -> io::Result<Self> {
        Ok(Self::BadAnswer)
    }
}

/// Writes the kernel's number, or what there is instead.
pub fn write_error(error: &io::Error, out: &mut impl Write) -> io::Result<()> {
    (error.raw_os_error(), error.to_string()).serialize(out)
}

/// Reads what `write_error` wrote.
pub fn read_error(input: &mut impl Read) -> io::Result<io::Error> {
    let (number, text): (Option<i32>, String) = BorshDeserialize::deserialize_reader(input)?;
    Ok(number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error))
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure {
            Failure::Stuck(_) | Failure::UsedUp => io::ErrorKind::TimedOut,
            Failure::Gone => io::ErrorKind::NotFound,
            Failure::Denied => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, failure)
    }
}
