//! Reads in a process of its own what belongs to neither root nor the user who runs this.
//!
//! Such a process, the helper, is this program again. There are at most two for each owner, as long as the command runs. It has given up all rights
//! (`confine`): it is no user's if root runs the command (`users`), and can open nothing. It gets descriptors ([`Request`]), and answers
//! with bytes that the asker checks. What it takes beyond the [`Budget`], or whatever else ends it, is one [`Failure`].
//!
//! A program that never calls [`enable`], such as a test of a library, reads everything itself.
#![forbid(unsafe_code)]

mod at_once;
mod budget;
mod channel;
mod confine;
mod failure;
mod helper;
mod helpers;
mod sealed;
mod serve;
mod users;
mod watch;

pub use at_once::{each_at_once, on_all};
pub use budget::Budget;
pub use failure::Failure;
pub use helpers::{
    Apart, NOBODY, Request, bounds, enable, end_all, for_owner, for_process, is_trusted,
    wait_for_process,
};
pub use sealed::{sealed, unsealed};
pub use serve::{Handler, Opened, is_asked, serve_if_asked};
pub use users::user_of;
