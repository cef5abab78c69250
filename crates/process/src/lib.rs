//! Facts about a process from the kernel and the allocator, read from outside, without stopping the process.
//!
//! The C library's arenas are found and walked by their own consistency ([`glibc`]); of other allocators only the name is known
//! ([`identify`]). All memory is reached through [`Memory`], so that everything can run on a snapshot.
//!
//! **Promise:** no page of the process becomes resident by being looked at: only pages that are present are read.
#![deny(unsafe_code)]

pub mod allocators;
mod areas;
mod asked;
mod beside;
mod binary;
mod blocks;
pub mod cgroup;
pub mod clock;
mod details;
pub mod executable;
mod forked;
pub mod glibc;
pub mod go;
pub mod go_collector;
pub mod go_goroutines;
pub mod go_memory;
mod go_variables;
pub mod identify;
mod mappings;
mod memory;
mod memory_reader;
mod padding;
mod part;
mod process_memory;
pub mod processes;
pub mod program;
#[allow(unsafe_code)]
mod remote;
pub mod rights;
mod roots;
pub mod rss;
mod search;
mod sight;
mod smaps;
mod stacks;
pub mod stat;
pub mod text;
mod their_rss;
mod variables;
pub mod watched;

#[cfg(test)]
mod tests;

pub use areas::{Area, Backing, parse_smaps, read_outline};
pub use beside::beside;
pub use binary::{Binary, Content};
pub use details::{Details, Mapped};
pub use mappings::{Mapping, mappings, mappings_of_files};
pub use memory::{Memory, PAGE_BYTES, Presence};
pub use memory_reader::MemoryReader;
pub use padding::padding;
pub use part::{Part, Term};
pub use process_memory::ProcessMemory;
pub use roots::{OtherRoot, other_root, told_root};
pub use rss::{Explained, is_ramsons};
pub use search::Search;
pub use smaps::read_smaps;
