//! Reads in a process of its own what belongs to neither root nor the user who runs this.
//!
//! Such a process, the helper, is this program again. At most two read for each owner, as long as the command runs. They have given up all rights
//! (`confine`): they are no user's if root runs the command (`owner`), and can open nothing. They get descriptors ([`Request`]), and answer with
//! bytes that the asker checks. Others open what an owner's file system has; they keep the command's rights and read nothing. A helper that takes
//! more than the [`Budget`], or that anything else ends, is one [`Failure`].
//!
//! A program that never calls [`enable`], such as a test of a library, reads everything itself.
#![deny(unsafe_code)]

mod at_once;
mod budget;
mod channel;
mod confine;
mod failure;
mod helper;
mod helpers;
#[expect(unsafe_code, reason = "two requests of ioctl, two IDs")]
mod namespace;
mod owner;
pub mod proc;
mod sealed;
mod serve;
mod watch;

pub use at_once::{each_at_once, on_all};
pub use budget::Budget;
pub use failure::{Failure, read_error, write_error};
pub use helpers::{
    Apart, Request, bounds, enable, end_all, end_of_user, for_owner, for_process, for_told_root,
    wait_for_process,
};
pub use owner::{NOBODY, Owner};
pub use sealed::{sealed, unsealed};
pub use serve::{Handler, Opened, is_asked, serve_if_asked};
