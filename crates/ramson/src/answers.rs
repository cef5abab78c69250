//! What commands that keep or write something answer with `--json`.

use serde::Serialize;
use std::path::PathBuf;

/// Of `mark`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Marked {
    /// The mark's name; null with `-o`.
    pub mark: Option<String>,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// The moment that was kept; nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// The profile that was written.
    pub file: PathBuf,
    /// Whether a history has it, too.
    pub in_history: bool,
}

/// Of `symbolize`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Symbolized {
    /// The profile that has the names.
    pub file: PathBuf,
    /// Addresses that have names now; null for another tool's profile.
    pub named: Option<usize>,
    /// All addresses of the profile; null for another tool's profile.
    pub addresses: Option<usize>,
    /// What kept the others from having names.
    pub missing_symbols: Vec<String>,
}

/// Of `history`, one for each event.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Recorded {
    /// What happened to the recording of the process.
    pub event: RecordEvent,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// When; nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// The history.
    pub history: PathBuf,
}

/// What happened to the recording of a process.
#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordEvent {
    /// It began.
    Begins,
    /// The process ended, and its end is kept.
    Ends,
}
