//! Bounds of what reading one input may cost.

use std::fmt;
use std::time::Duration;

/// Memory and processor time that one input may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes.
    pub memory_bytes: u64,
    /// `None`: as long as it takes.
    pub cpu: Option<Duration>,
}

impl Budget {
    /// Budget of an input that belongs to root or to the user who runs this.
    pub const OWN: Self = Self { memory_bytes: 4 << 30, cpu: None };
    /// Budget of an input that belongs to anyone else.
    pub const STRANGER: Self = Self { memory_bytes: 512 << 20, cpu: Some(Duration::from_secs(10)) };
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} MiB", self.memory_bytes >> 20)?;
        self.cpu.map_or(Ok(()), |cpu| write!(f, " and {} s of CPU time", cpu.as_secs_f64()))
    }
}
