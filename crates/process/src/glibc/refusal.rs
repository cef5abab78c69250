//! Why there are no statistics.

use super::layout::Layout;
use std::fmt;

/// Why there are no statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This version's layout is not known.
    Version(u32, u32),
    /// No arena was found: nothing was ever allocated from it.
    NoArena,
    /// Several places look like the main arena.
    Ambiguous,
    /// The chain of arenas does not lead back to the first one.
    Chain,
    /// The parameters were not found.
    NoParameters,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Version(major, minor) => write!(
                f,
                "the arenas of glibc {major}.{minor} are not known; known are 2.27 to 2.{} on x86-64",
                Layout::newest()
            ),
            Self::NoArena => {
                f.write_str("glibc's malloc has no arena: it was never asked for memory")
            }
            Self::Ambiguous => f.write_str("several places look like glibc's main arena"),
            Self::Chain => f.write_str("the chain of glibc's arenas is broken"),
            Self::NoParameters => f.write_str("glibc's malloc parameters were not found"),
        }
    }
}
