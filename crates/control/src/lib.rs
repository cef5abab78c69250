//! What acts on a process: its allocator returns free memory to the kernel, or says what it has. One thread is borrowed for
//! it (crate `ramson-inject`); the others run on.
#![forbid(unsafe_code)]

mod ask;
mod lever;
mod outside;
mod refusal;
mod schedule;
mod trim;

pub use ask::ask;
pub use schedule::Schedule;
pub use trim::{TrimAnswer, Trimmed, Trims, trim, trim_all};
