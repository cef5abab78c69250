//! Reads in a process of its own what belongs to neither root nor the user who runs this.
//!
//! Such a process, the *worker*, is another instance of this program. Each owner has at most two that read, for as long as the command
//! runs. A worker enters the owner's root directory and opens files as the owner, but has given up all other rights (`confine`): if root
//! runs the command, it is no user's process (`owner`). It asks the command for files of /proc that only root may open (`proc`). It answers
//! with values that the asker checks. One that takes more than the [`Budget`], or that anything else ends, is one [`Failure`].
//!
//! A program that never calls [`enable`], such as a test of a library, reads everything itself; and so does a worker.
#![deny(unsafe_code)]

mod at_once;
mod budget;
mod channel;
mod confine;
mod failure;
#[expect(unsafe_code, reason = "two requests of ioctl, two IDs")]
mod namespace;
mod owner;
pub mod proc;
mod serve;
mod watch;
mod worker;
mod workers;

pub use at_once::{OWNERS_AT_ONCE, each_at_once, each_of_owners, on_all};
pub use budget::Budget;
pub use failure::{Failure, read_error, write_error};
pub use owner::{NOBODY, Owner};
pub use serve::{Handler, is_asked, serve_if_asked};
pub use workers::{
    Apart, Request, bounds, enable, end_all, end_of_user, for_owner, for_process, for_told_root,
};
