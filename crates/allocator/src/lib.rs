//! What a process's resident memory is, and what its allocator keeps of it: read from outside, without stopping the process.
//!
//! The C library's arenas are found and walked by their own consistency ([`glibc`]); of other allocators only the name is known
//! ([`identify`]). All memory is reached through [`Memory`], so that everything can run on a snapshot.
//!
//! **Promise:** no page of the process becomes resident by being looked at: only pages that are present are read.
#![deny(unsafe_code)]

pub mod glibc;
pub mod identify;
mod mappings;
mod memory;
mod padding;
mod process;
#[allow(unsafe_code)]
mod remote;
mod resident;
#[allow(unsafe_code)]
mod scan;
mod stacks;

#[cfg(test)]
mod tests;

pub use mappings::{Backing, Mapping, parse_smaps, read_smaps};
pub use memory::{Memory, PAGE_BYTES, Presence};
pub use padding::padding;
pub use process::ProcessMemory;
pub use resident::{Explained, Part, explain, is_ramsons};
pub use stacks::thread_stacks;
