//! Serves profiles over HTTP: `/debug/pprof` as Go's net/http/pprof has it, the command line's JSON documents, and a page.
//!
//! `address` is where it listens, `connections` accepts clients and drops the slow ones (`patience`), `guard` says who is let in,
//! by a `token` among other things. `route` understands a path; `heap`, `symbol`, `documents`, `flame` and `page` answer, and `reply` is how.
//! `sources` says what is served, `work` bounds how much is done at a time, `waiting` tells which connections are idle.
//!
//! Everything that reads profiles runs outside the event loop, and goes through the same doors as the commands.
#![forbid(unsafe_code)]

mod address;
mod connections;
mod documents;
mod flame;
mod guard;
mod heap;
mod page;
mod parts;
mod patience;
mod query;
mod reply;
mod route;
mod server;
mod sources;
mod symbol;
mod token;
mod waiting;
mod work;

pub use address::Address;
pub use documents::{Document, Documents};
pub use server::{Options, serve};
pub use sources::{Entries, Entry, Sources};
pub use token::Token;
