//! Has a process's allocator return memory or tell its figures, on a borrowed thread (`ramson-inject`).
#![forbid(unsafe_code)]

mod act;
mod apart;
mod ask;
mod attach;
mod inside;
mod lever;
mod outside;
mod schedule;
mod trim;

pub use act::Actor;
pub use ask::ask;
pub use attach::{Attached, Changes, Detached, Options, Set, attach, attachable, detach, set};
pub use schedule::Schedule;
pub use trim::{Accepts, TrimAnswer, Trimmed, Trims, trim, trim_all};
