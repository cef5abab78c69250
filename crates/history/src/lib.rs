//! The history: snapshots of many processes over a month in one SQLite database (docs/history.md has its tables).
//!
//! `state` is what of a snapshot changes, `difference` one state as its difference from another, in the compressed `columns` of numbers.
//! `intern` keeps once what does not change, `writer` appends and removes, `levels` says what is kept how long, `trigger` when a
//! snapshot is taken, `query` reads, `moment` is how people name moments, `schema` has the tables.
#![forbid(unsafe_code)]

mod columns;
mod difference;
mod intern;
mod levels;
mod moment;
mod query;
mod schema;
mod state;
mod trigger;
mod writer;

pub use levels::{Level, Levels};
pub use moment::{Span, When, duration};
pub use query::{History, Moment, Process, between};
pub use schema::{HistoryError, MAGIC, VERSION};
pub use trigger::{Observation, Rules, Triggers, Watch};
pub use writer::{Recorder, Removed, Taken};

#[cfg(test)]
mod tests;
