//! Answers of commands that keep or write something, with `--json`.

use serde::Serialize;
use std::path::PathBuf;

/// Answer of `ramson mark`.
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

/// Answer of `ramson symbolize`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Symbolized {
    /// The profile that has the names.
    pub file: PathBuf,
    /// Addresses that have names now; null for another tool's profile.
    pub named: Option<usize>,
    /// All addresses of the profile; null for another tool's profile.
    pub addresses: Option<usize>,
    /// Reasons why the other addresses have no names.
    pub missing_symbols: Vec<String>,
}

/// Answer of `ramson history`, one for each event.
#[derive(Serialize, schemars::JsonSchema)]
pub struct HistoryLine {
    /// Event in the history of the process.
    pub event: HistoryEvent,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// When; nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// The history.
    pub history: PathBuf,
}

/// Event in the history of a process.
#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HistoryEvent {
    /// Snapshots are kept from now on.
    Begins,
    /// The process ended, and its end is kept.
    Ends,
}
