//! Whether the process of a profile runs: by what it has mapped, or where that may not be seen, by the lock on the file.

use crate::maps::has_mapped;
use ramson_paths::MapIdentity;
use ramson_process::stat::Stat;
use ramson_process::{processes, text};
use ramson_reader::Header;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::File;

/// Whether the process that `header` names, as it is called here, runs and still writes `file`.
pub fn is_running(header: &Header, file: &File) -> bool {
    match MapIdentity::of(file).and_then(|identity| has_mapped(header.pid, &identity)) {
        Ok(is_mapped) => is_mapped,
        // It gave up rights, or is not dumpable: its own user may not look at it. Or nobody could be asked, or did not answer.
        Err(_) => {
            Stat::of(header.pid).is_some_and(|stat| stat.start_ticks == header.process_start_ticks)
                && is_locked(file)
        }
    }
}

/// The same, and whether one does in another PID namespace.
pub fn runs_anywhere(header: &Header, file: &File) -> bool {
    let elsewhere = |identity| running_elsewhere(header, &identity);
    is_running(header, file) || MapIdentity::of(file).ok().and_then(elsewhere).is_some()
}

/// The process, in a container, that has this file mapped and is called `header.pid` in a namespace of its own.
pub fn running_elsewhere(header: &Header, identity: &MapIdentity) -> Option<u32> {
    processes::all().into_iter().find(|&pid| {
        pid != header.pid
            && own_pid(pid) == Some(header.pid)
            && has_mapped(pid, identity).unwrap_or(false)
    })
}

/// The process IDs of all processes, each in its own namespace.
pub fn own_pids() -> HashSet<u32> {
    processes::all().into_iter().filter_map(own_pid).collect()
}

/// The ID that a process of ours has in its own, innermost PID namespace.
pub fn own_pid(pid: u32) -> Option<u32> {
    let status = text::read(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Before Linux 4.1 the line is missing.
    ids.map_or(Some(pid), |ids| ids.split_whitespace().last()?.parse().ok())
}

/// Whether a process writes a profile whose header is complete: it took the lock before it wrote that.
fn is_locked(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(error) => error == Errno::WOULDBLOCK,
        Ok(()) => {
            // Closing the file would do the same, later.
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
    }
}
