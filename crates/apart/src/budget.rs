//! Bounds of what reading one input may cost.

use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::Duration;

/// Memory and time that one input may cost. The time in which its reader waits for a processor does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Budget {
    /// Bytes.
    pub memory_bytes: u64,
    /// `None`: as long as it takes.
    #[borsh(serialize_with = "write_time", deserialize_with = "read_time")]
    pub time: Option<Duration>,
}

fn write_time(time: &Option<Duration>, out: &mut impl Write) -> io::Result<()> {
    time.map(|time| time.as_nanos() as u64).serialize(out)
}

fn read_time(input: &mut impl Read) -> io::Result<Option<Duration>> {
    Ok(Option::deserialize_reader(input)?.map(Duration::from_nanos))
}

impl Budget {
    /// Budget of an input that belongs to root or to the user who runs this.
    pub const OWN: Self = Self { memory_bytes: 4 << 30, time: None };
    /// Budget of an input that belongs to anyone else.
    pub const STRANGER: Self =
        Self { memory_bytes: 512 << 20, time: Some(Duration::from_secs(10)) };
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} MiB", self.memory_bytes >> 20)?;
        self.time.map_or(Ok(()), |time| write!(f, " and {} s", time.as_secs_f64()))
    }
}
