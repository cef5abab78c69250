//! By whose rights a process acts, and the user that a helper becomes.
//!
//! This user is not the owner of what the helper reads, because a user may signal, renice and limit every process that is theirs. It is a user
//! who has no other process.

use crate::confine::Ids;
use std::fs::{metadata, read, read_to_string};
use std::os::unix::fs::MetadataExt;

/// From here on, nothing gives IDs to users, to containers or to services (systemd, UIDS-GIDS: "unused").
const FIRST_UNUSED: u32 = 1 << 31;

/// The effective user of a process. Its files in /proc are root's where it forbids to be looked at.
pub fn user_of(pid: u32) -> Option<u32> {
    match metadata(format!("/proc/{pid}")).ok()?.uid() {
        0 => {
            let status = read(format!("/proc/{pid}/status")).ok()?;
            let status = String::from_utf8_lossy(&status);
            let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
            ids.split_whitespace().nth(1)?.parse().ok()
        }
        user => Some(user),
    }
}

/// User and group of the helper that reads what belongs to `owner`.
pub fn ids_for(owner: u32) -> Ids {
    let id = |map| id_within(owner, &read_to_string(map).unwrap_or_default());
    Ids { user: id("/proc/self/uid_map"), group: id("/proc/self/gid_map") }
}

/// One ID for each owner, so that no helper is another's either. If the user namespace does not have this ID, returns the last one of the
/// namespace.
fn id_within(owner: u32, map: &str) -> u32 {
    // The very last number is none.
    let own = FIRST_UNUSED | Some(owner).filter(|&id| id < FIRST_UNUSED - 1).unwrap_or(0);
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, count) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(first..first.saturating_add(count))
    });
    let ranges: Vec<_> = ranges.collect();
    let last = ranges.iter().map(|range| range.end.saturating_sub(1)).max();
    if ranges.iter().any(|range| range.contains(&own)) { own } else { last.unwrap_or(own) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helper_user_ids_are_unique() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(id_within(1501, whole), 2_147_485_149);
        assert_ne!(id_within(1501, whole), id_within(1502, whole));
        for owner in [FIRST_UNUSED - 1, FIRST_UNUSED, u32::MAX - 1] {
            assert_eq!(id_within(owner, whole), FIRST_UNUSED, "{owner}");
        }
        assert_eq!(id_within(1501, "0 100000 1000\n1000 1000 64537\n"), 65536);
        assert_eq!(id_within(1501, ""), 2_147_485_149);
    }
}
