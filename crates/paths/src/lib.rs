//! The one door: opens every path that a profile, a process, debug information or another user names.
//!
//! Such a path is resolved beneath a root that we chose, so no link leads out of it. This crate looks at what is there before it opens it:
//! opening a FIFO would wait, opening a device may act, and reading a file of a pseudo file system may take something away. Only a regular
//! file of known size is opened. The links of `/proc/PID` are followed only where this crate forms them.
//!
//! What another user's process has mapped, and what that process or that user's profile names, is for a worker of that user's (`ramson-apart`):
//! its file system may never answer. In a worker that has entered its owner's root directory, the kernel itself keeps paths beneath that.
//!
//! A path that the user typed is not for this crate: it is opened as any tool opens it.
#![forbid(unsafe_code)]

mod directory;
mod mapped;
mod ours;
mod regular;
mod root;

pub use directory::{Directory, Entry};
pub use mapped::{
    MapIdentity, MappedFile, MappedLink, executable_identity, executable_of, mapped_file,
    mapped_links,
};
pub use ramson_apart::Owner;
pub use regular::{Facts, Kind, Refusal, RegularFile};
pub use root::{Links, Root, RootIdentity};

#[cfg(test)]
mod tests;
