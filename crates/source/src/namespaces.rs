//! Processes in other PID namespaces (containers): a profile names its process as that process sees itself.

use crate::maps::has_mapped;
use crate::recording::Recording;
use ramson_reader::Header;
use std::fs::{self, File};

/// The process that has `file` mapped and is called `header.pid` in a namespace of its own.
pub fn running_with(header: &Header, file: &File) -> Option<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|&pid| pid != header.pid && own_pid(pid) == Some(header.pid) && has_mapped(pid, file))
}

/// What a process of ours is called in its own, innermost namespace.
pub fn own_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Before Linux 4.1 the line is missing.
    ids.map_or(Some(pid), |ids| ids.split_whitespace().last()?.parse().ok())
}

/// Whether two sources are of one and the same process image.
pub fn is_same(one: &Recording, other: &Recording) -> bool {
    let facts = |source: &Recording| {
        let header = &source.snapshot.header;
        (
            header.pid,
            header.process_start_ticks,
            header.start_monotonic_ns,
            header.start_realtime_ns,
        )
    };
    one.running.is_none() && facts(one) == facts(other)
}
