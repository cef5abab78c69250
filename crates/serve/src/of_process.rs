//! Requests about one process, other than those for its profiles and documents.

/// One of these requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfProcess {
    /// A stream of its moments.
    Events,
    /// What a Go program's collector does.
    Collections,
    /// The moments that this server has seen.
    Moments,
    /// Lines of a source file.
    Source,
    /// A trim: its allocator returns free memory.
    Trim,
}

impl OfProcess {
    /// The one with this name in a path.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "events" => Some(Self::Events),
            "gc" => Some(Self::Collections),
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
