//! The harness of the whole-tool tests: builds libramson.so and the test programs, runs a program under it in a directory
//! of its own, and reads the profiles that it left.
//!
//! A test program marks its call sites by functions named `site_…`; `sites` gives each one's exact counts. Nothing here
//! skips a test: a tool that is missing fails it with the name of its package.
#![deny(unsafe_code)]

pub mod attaching;
pub mod budgets;
mod build;
pub mod cgroups;
pub mod deaths;
pub mod forged;
pub mod golang;
pub mod hostile;
pub mod keeping;
pub mod loaded;
pub mod random;
pub mod recorded;
pub mod releases;
mod run;
pub mod schemas;
pub mod servers;
pub mod serving;
pub mod several;
mod signals;
pub mod simulation;
mod sites;
pub mod strangers;
pub mod surveys;
pub mod terminal;
#[allow(unsafe_code)]
pub mod tracing;
pub mod trimming;
pub mod tutorials;

pub use build::{
    STATIC_JEMALLOC, golden, library, not_here, program, program_with, shared_library,
    target_directory, tests_directory, tool,
};
pub use random::Random;
pub use run::{
    Directory, Finished, Run, preload, private_snapshot, profiles_in, read, read_bytes,
    wait_until_ready,
};
pub use sites::{ESTIMATES, Site, Symbols, estimates, health, live_of_size, sites, total};
