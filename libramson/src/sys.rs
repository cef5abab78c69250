//! The system calls that ramson makes, without the C library: nothing here allocates, locks or touches errno.
//!
//! All of them go through the gate in `permit`.

mod file;
mod filters;
mod flags;
mod memory;
pub mod permit;
mod proc_lines;
mod status;
mod thread;

pub use file::{
    File, Identity, identity_of, make_directory, memfd, open_at, open_own_memory, open_to_read,
    read_link, unlink, unlink_at,
};
pub use filters::{look_for_filters, prctl_confines, seccomp_confines};
pub use flags::*;
pub use memory::{
    Range, add_one, advise, give_space, has_page, is_refused_memory, map_code, map_own,
    populate_code, protect, read_own_memory, replace_by_zeroes, unlock_zeroes, unmap,
    while_writable, with_page_writable,
};
pub use permit::{EEXIST, Errno};
pub use proc_lines::{Lines, numbers_in};
pub use status::Status;
pub use thread::{
    clock_ns, file_size_limit, is_counter_forbidden, pause, process_id, signal_stack, thread_id,
    thread_name, user_id, without_signals,
};
