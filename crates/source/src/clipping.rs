//! Extents as the kernel has them now: a hole that the program unmapped inside one is not in its record.

use ramson_reader::{Follower, Snapshot};
use std::fs;
use std::ops::Range;

/// Leaves of the extents what process `pid`, whose snapshot it is, has mapped now.
pub fn clip(snapshot: &mut Snapshot, pid: u32) {
    if let Some(mapped) = anonymous_ranges(pid).filter(|_| !snapshot.extents.is_empty()) {
        snapshot.clip_extents(&mapped);
    }
}

/// The same for the latest snapshot of a follower.
pub fn clip_latest(follower: &mut Follower, pid: u32) {
    let has_extents = follower.snapshot().is_some_and(|snapshot| !snapshot.extents.is_empty());
    if let Some(mapped) = has_extents.then(|| anonymous_ranges(pid)).flatten() {
        follower.clip_extents(&mapped);
    }
}

/// Where a process has memory that is no file's, by address; `None` where it cannot be read.
fn anonymous_ranges(pid: u32) -> Option<Vec<Range<u64>>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let ranges: Vec<Range<u64>> = maps.lines().filter_map(anonymous_range).collect();
    // Of a process that is gone the kernel tells nothing.
    (!maps.is_empty()).then_some(ranges)
}

/// Of a line of /proc/PID/maps.
fn anonymous_range(line: &str) -> Option<Range<u64>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let inode = fields.nth(3)?;
    let path = fields.next().unwrap_or_default().trim_start();
    // The kernel's names for shared anonymous memory, and for that in huge pages.
    let is_named = ["/dev/zero (deleted)", "/anon_hugepage (deleted)"].contains(&path);
    let number = |text| u64::from_str_radix(text, 16).ok();
    (inode == "0" || is_named).then_some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_known_by_its_line() {
        for (line, is_anonymous) in [
            ("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ", true),
            ("7f0000000000-7f0000002000 ---p 00000000 00:00 0 [anon: a name]", true),
            ("7f0000000000-7f0000002000 rw-s 00000000 00:01 2055      /dev/zero (deleted)", true),
            ("7f0000000000-7f0000002000 rw-p 00000000 08:01 7         /var/lib/data", false),
            ("7f0000000000-7f0000002000 rw-s 00000000 00:01 9         /memfd:x (deleted)", false),
        ] {
            let range = 0x7f00_0000_0000..0x7f00_0000_2000;
            assert_eq!(anonymous_range(line), is_anonymous.then_some(range), "{line}");
        }
    }
}
