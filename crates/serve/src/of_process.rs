//! What is asked of one process besides its profiles and documents.

/// One of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfProcess {
    /// A stream of its moments.
    Events,
    /// The moments that this server has seen.
    Moments,
    /// Lines of a source file.
    Source,
    /// That its allocator's free memory is returned.
    Trim,
}

impl OfProcess {
    /// The one with this name in a path.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "events" => Some(Self::Events),
            "moments" => Some(Self::Moments),
            "source" => Some(Self::Source),
            "trim" => Some(Self::Trim),
            _ => None,
        }
    }

    /// Whether it changes the process.
    pub fn acts(self) -> bool {
        self == Self::Trim
    }
}
