//! Serves profiles over HTTP: `/debug/pprof` as Go's net/http/pprof has it, the command line's JSON documents, and a page.
//!
//! `address` is where it listens by a `listener`, `connections` accepts clients and drops the slow ones (`patience`), `guard` says who is let in,
//! by a `token` among other things. `route` understands a path; `heap`, `symbol`, `documents`, `flame` and `page` answer, and `reply` is how.
//! `metrics` answers Prometheus.
//! `process` answers what is asked of one process besides (`of_process`): the `events` and `moments` that `watch` has seen, source code, a trim.
//! `sources` says what is served, `trees` keeps what was read for pictures as long as it is the same (`identity`), `work` bounds how much is done
//! at a time, `waiting` tells which connections are idle.
//!
//! Everything that reads profiles runs outside the event loop, and goes through the same doors as the commands.
#![forbid(unsafe_code)]

mod address;
mod collections;
mod connections;
mod documents;
mod events;
mod flame;
mod guard;
mod heap;
mod identity;
mod ids;
mod listener;
pub mod metrics;
mod moments;
mod of_process;
mod page;
mod parts;
mod patience;
mod process;
mod query;
mod reply;
mod route;
mod server;
mod sources;
mod symbol;
mod token;
mod trees;
mod waiting;
mod watch;
mod work;

pub use address::Address;
pub use documents::document;
pub use moments::Moments;
pub use parts::Served;
pub use server::{Options, serve};
pub use sources::{Entries, Entry, First, Sources};
pub use token::Token;
