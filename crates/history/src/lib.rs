//! The history: snapshots of many processes over a month in one SQLite database (docs/internals/history-format.md has its tables).
//!
//! `state` is what of a snapshot changes, `difference` one state as its difference from another, in `columns` of numbers.
//! `intern` keeps once what does not change, `writer` appends, `thinning` removes, `levels` says what is kept how long, `trigger` when a
//! snapshot is taken, `query` reads, `moment` is how people name moments, `schema` has the tables, `guard` bounds what a stranger's database costs.
#![forbid(unsafe_code)]

mod apart;
mod columns;
mod database;
mod difference;
mod guard;
mod image;
mod intern;
mod levels;
mod moment;
mod query;
mod question;
mod schema;
mod serve;
mod state;
mod thinning;
mod trigger;
mod writer;

pub use levels::{Level, Levels};
pub use moment::{Span, When, duration};
pub use query::{History, between};
pub use question::{Moment, Process};
pub use schema::{HistoryError, MAGIC, TABLES, TERM_COUNT, VERSION};
pub use serve::HistoryReader;
pub use thinning::Removed;
pub use trigger::{Observation, Rules, Triggers, Watch};
pub use writer::{Free, HistoryWriter, Taken};

#[cfg(test)]
mod tests;
