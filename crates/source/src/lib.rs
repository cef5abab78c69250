//! SRC: from the words that a user typed to a profile that was read, whether its process still runs, and which moment it shows.
//!
//! `selector` understands SRC, `members` are the processes that it names; `open` opens their profiles. `file` reads one file, mapping
//! or pipe; `discovery` finds all profiles of this machine.
//! `moment` turns `SRC@…` into a moment of a history, `marks` into one that the user kept. `target` is a running process, profiled
//! or not. `snapshot_bytes` makes a profile file of what was read, `sum` one of several; `root_note` keeps in it which root directory its
//! process has. `failure` is how every command fails.
#![forbid(unsafe_code)]

pub mod clickhouse;
mod discovery;
mod failure;
mod file;
mod finder;
mod foreign;
pub mod go;
mod http;
mod maps;
pub mod marks;
mod members;
mod moment;
mod open;
pub mod places;
mod recording;
mod root_note;
mod running;
mod selector;
mod snapshot_bytes;
mod sum;
mod target;
mod theirs;

pub use discovery::{
    Discovery, all_with, files_in, files_since, list_all, list_each, outlines_with,
};
pub use failure::Failure;
pub use file::{
    Opened, check_stored, find_again, malloc_info, open_file, open_member, open_to_write,
    outline_file, read_file,
};
pub use finder::ProfileFinder;
pub use foreign::Foreign;
pub use maps::runs_another_program;
pub use members::{is_named, none_of, processes_of};
pub use moment::{PastMoment, find, moments_of, place, time_of, unreadable};
pub use open::{Members, open_all, open_marks, open_one, open_recording, open_recordings, running};
pub use ramson_import::MallocInfo;
pub use recording::{Past, Recording, complete, name_of};
pub use root_note::{RootFate, note_root_of, root_fate};
pub use running::{own_pids, runs_anywhere};
pub use selector::{Base, Selector};
pub use sum::Sum;
pub use target::{Refused, Target, Targets, find_target, find_targets, gone, matching_targets};
