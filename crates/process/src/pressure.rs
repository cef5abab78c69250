//! How a process's cgroup fares.

use crate::cgroup;
use std::fs;
use std::path::PathBuf;

/// Tasks wait for memory for this part of the last 10 s, in percent, or more: the cgroup is stalled.
const STALLED_PERCENT: f64 = 10.0;

/// How a cgroup fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// How often a bound was met.
    pub limit_events: u64,
    /// Tasks wait for memory much of the time (memory.pressure).
    pub is_stalled: bool,
}

/// The files that tell how a process's cgroup fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// memory.events of version 2; of version 1 memory.failcnt and memory.oom_control.
    bounds: Vec<PathBuf>,
    /// memory.pressure, which version 2 has also where memory belongs to the first.
    pressure: Option<PathBuf>,
}

impl Group {
    /// Of process `pid`; without files where there is none.
    pub fn of(pid: u32) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found =
            Self::find(&read(&format!("/proc/{pid}/cgroup")), &read("/proc/self/mountinfo"));
        // The root has no such file: what waits there is the machine.
        let is_group = |path: &PathBuf| path.with_file_name("cgroup.events").exists();
        Self { pressure: found.pressure.filter(is_group), ..found }
    }

    fn find(groups: &str, mounts: &str) -> Self {
        let groups = cgroup::groups_of_memory(groups, mounts);
        let is_both = groups.len() > 1;
        let mut found = Self::default();
        for group in groups {
            let names: &[&str] = match group.is_second {
                true if is_both => &[],
                true => &["memory.events"],
                false => &["memory.failcnt", "memory.oom_control"],
            };
            found.bounds.extend(names.iter().map(|name| group.directory().join(name)));
            if group.is_second {
                found.pressure = Some(group.directory().join("memory.pressure"));
            }
        }
        found
    }
}

impl Pressure {
    /// What the group's files say now.
    pub fn of(group: &Group) -> Self {
        let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        let bounds: Vec<String> = group.bounds.iter().map(read).collect();
        Self::parse(&bounds, &group.pressure.as_ref().map(read).unwrap_or_default())
    }

    fn parse(bounds: &[String], pressure: &str) -> Self {
        let some = pressure.lines().find_map(|line| line.strip_prefix("some avg10="));
        let percent = some.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        Self {
            limit_events: bounds.iter().flat_map(|file| file.lines()).filter_map(count).sum(),
            is_stalled: percent.is_some_and(|percent| percent >= STALLED_PERCENT),
        }
    }
}

/// `max 4`, or the whole of memory.failcnt.
fn count(line: &str) -> Option<u64> {
    const BOUNDS: [&str; 4] = ["high", "max", "oom", "oom_kill"];
    match line.split_once(' ') {
        Some((name, count)) if BOUNDS.contains(&name) => count.parse().ok(),
        Some(_) => None,
        None => line.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn pressure_is_bounds_that_were_met_and_time_spent_waiting() {
        let events = "low 9\nhigh 3\nmax 4\noom 1\noom_kill 1\noom_group_kill 5\n".to_owned();
        let pressure = "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n";
        let found = Pressure::parse(&[events], pressure);
        assert_eq!(found, Pressure { limit_events: 9, is_stalled: true });
        let first = ["17\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"].map(str::to_owned);
        assert_eq!(Pressure::parse(&first, "").limit_events, 19);
        assert_eq!(Pressure::parse(&[], "some avg10=9.99 avg60=99.00\n"), Pressure::default());
    }

    #[test]
    fn bounds_are_of_the_version_that_has_memory_and_waiting_of_the_second() {
        const SECOND: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
        const BOTH: &str = "\
30 23 0:26 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n\
34 30 0:31 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let path = |path: &str| Path::new("/sys/fs/cgroup").join(path);
        let found = Group::find("0::/a/b\n", SECOND);
        assert_eq!(found.bounds, [path("a/b/memory.events")]);
        assert_eq!(found.pressure, Some(path("a/b/memory.pressure")));
        let found = Group::find("5:memory:/docker/x/y\n0::/c\n", BOTH);
        let files = ["memory/y/memory.failcnt", "memory/y/memory.oom_control"];
        assert_eq!(found.bounds, files.map(path));
        assert_eq!(found.pressure, Some(path("unified/c/memory.pressure")));
        assert_eq!(Group::find("3:cpu:/z\n", SECOND), Group::default());
    }
}
