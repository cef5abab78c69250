//! Has a process's allocator return memory or tell its figures, on a borrowed thread (`ramson-inject`).
#![forbid(unsafe_code)]

mod ask;
mod lever;
mod outside;
mod schedule;
mod trim;

pub use ask::ask;
pub use schedule::Schedule;
pub use trim::{TrimAnswer, Trimmed, Trims, trim, trim_all};
