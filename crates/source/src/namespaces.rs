//! Processes in other PID namespaces (containers): a profile names its process as that process sees itself.

use crate::maps::has_mapped;
use ramson_process::processes;
use ramson_reader::Header;
use std::fs::{self, File};

/// The process that has `file` mapped and is called `header.pid` in a namespace of its own.
pub fn running_with(header: &Header, file: &File) -> Option<u32> {
    processes::all()
        .into_iter()
        .find(|&pid| pid != header.pid && own_pid(pid) == Some(header.pid) && has_mapped(pid, file))
}

/// What a process of ours is called in its own, innermost namespace.
pub fn own_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Before Linux 4.1 the line is missing.
    ids.map_or(Some(pid), |ids| ids.split_whitespace().last()?.parse().ok())
}
