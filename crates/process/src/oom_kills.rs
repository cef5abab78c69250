//! How often the OOM killer came to a control group.

use crate::cgroup;
use std::fs;
use std::path::PathBuf;

/// The control group that counts a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// As /proc/PID/cgroup names it.
    pub path: String,
    /// Files with a line `oom_kill N`; the first that is there counts.
    counters: Vec<PathBuf>,
}

impl Cgroup {
    /// Of process `pid`. A process that has died is in none, by version 1.
    pub fn of(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        Self::find(&groups, &mounts)
    }

    fn find(groups: &str, mounts: &str) -> Option<Self> {
        let mut found = cgroup::groups_of_memory(groups, mounts);
        // Where both versions are mounted, memory belongs to the first.
        let first = found.iter().position(|group| !group.is_second).unwrap_or(0);
        let group = (!found.is_empty()).then(|| found.swap_remove(first))?;
        // Events of the groups below are no business of this process: `.local` where the kernel has it (5.2).
        let files: &[&str] = match group.is_second {
            true => &["memory.events.local", "memory.events"],
            false => &["memory.oom_control"],
        };
        let counters = files.iter().map(|file| group.directory().join(file)).collect();
        Some(Self { path: group.path.to_owned(), counters })
    }

    /// Processes of this group that the OOM killer has ended since it was made.
    pub fn oom_kills(&self) -> Option<u64> {
        self.counters.iter().find_map(|path| count_in(&fs::read_to_string(path).ok()?))
    }
}

fn count_in(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "\
30 23 0:26 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n\
34 30 0:31 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn the_group_is_the_one_that_counts_memory() {
        let group = Cgroup::find("5:memory:/docker/x/y\n3:cpu:/z\n0::/other\n", BOTH).unwrap();
        assert_eq!(group.path, "/docker/x/y");
        assert_eq!(group.counters, [PathBuf::from("/sys/fs/cgroup/memory/y/memory.oom_control")]);
        let group = Cgroup::find("0::/a/b\n", BOTH).unwrap();
        assert_eq!(
            group.counters[0],
            PathBuf::from("/sys/fs/cgroup/unified/a/b/memory.events.local")
        );
        assert_eq!(Cgroup::find("3:cpu:/z\n", BOTH), None);
    }

    #[test]
    fn the_count_is_found_in_files_of_both_versions() {
        assert_eq!(count_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(count_in("low 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(count_in("oom_kill_disable 0\nunder_oom 0\n"), None);
    }
}
