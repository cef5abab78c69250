//! The goroutines of a Go program as a profile: each has the bytes of its stack.

use super::course::{code_of, header_of};
use crate::recording::Recording;
use ramson_format::{Kind, stack_flags};
use ramson_process::clock::monotonic_ns;
use ramson_process::go::NoGoHeap;
use ramson_process::go_goroutines::{Group, Waiting, goroutines_of};
use ramson_profile::ReturnAddress;
use ramson_reader::{Snapshot, Stack};

/// The goroutines of a program at one moment.
pub struct Goroutines {
    /// A stack for each group, in their order.
    pub recording: Recording,
    /// Those with one stack each.
    pub groups: Vec<Group>,
    /// Those that wait.
    pub waiting: Vec<Waiting>,
    /// On the clock of the profile's times.
    pub at_ns: u64,
}

/// Looks at the goroutines of a process. `None`: it is no Go program, or cannot be looked at.
pub fn goroutines(pid: u32) -> Option<Result<Goroutines, NoGoHeap>> {
    let found = match goroutines_of(pid)? {
        Ok(found) => found,
        Err(defect) => return Some(Err(defect)),
    };
    let frames = |group: &Group| {
        group.stack.iter().map(|&address| ReturnAddress(address).lookup()).collect()
    };
    let stacks = found.groups.iter().map(|group| Stack {
        flags: Kind::Heap.stack_flags() | stack_flags::GO,
        frames: frames(group),
        ..Stack::default()
    });
    let (at_ns, origin) = (monotonic_ns(), format!("goroutines of process {pid}"));
    let snapshot = Snapshot {
        header: header_of(pid),
        mappings: code_of(pid, found.at, found.bias)?,
        stacks: stacks.collect(),
        ..Snapshot::default()
    };
    let recording = Recording {
        snapshot,
        running: Some(pid),
        read_ns: at_ns,
        origin,
        owner: None,
        names: None,
        past: None,
    };
    let (groups, waiting) = (found.groups, found.waiting);
    Some(Ok(Goroutines { recording, groups, waiting, at_ns }))
}
