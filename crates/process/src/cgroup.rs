//! The control groups of a process that may count its memory: its limit, how far off that is, and how the group fares.

use crate::text;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Least number of bytes that means no limit: version 1 then shows the largest number, rounded to pages.
const NO_LIMIT: u64 = 1 << 62;
/// Tasks wait for memory for this part of the last 10 s, in percent, or more: the group is stalled.
const STALLED_PERCENT: f64 = 10.0;

/// The limit that will be hit first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Limit {
    /// memory.max, or memory.limit_in_bytes of version 1.
    pub limit_bytes: u64,
    /// memory.current, or memory.usage_in_bytes.
    pub used_bytes: u64,
    /// Of these, shared memory and files in tmpfs, which stay until they are removed (memory.stat).
    pub shared_memory_bytes: u64,
    /// Of these, the page cache, which the kernel takes back before it kills.
    pub page_cache_bytes: u64,
    /// The group as the process's cgroup file names it, or one above it.
    pub group: String,
}

impl Limit {
    /// What may still be used before the kernel kills: it takes back the page cache first.
    pub fn left_bytes(&self) -> u64 {
        let needed = self.used_bytes.saturating_sub(self.page_cache_bytes);
        self.limit_bytes.saturating_sub(needed)
    }
}

/// How a group fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// How often a bound was met.
    pub limit_events: u64,
    /// Tasks wait for memory much of the time (memory.pressure).
    pub is_stalled: bool,
}

/// A group that may count the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// By version 2.
    is_second: bool,
    /// As /proc/PID/cgroup names it.
    pub path: String,
    /// The same below the mount point.
    below: PathBuf,
    point: PathBuf,
}

/// Those of a process: none, one, or one of each version.
#[derive(Clone, Debug, Default)]
pub struct Groups(Vec<Group>);

impl Groups {
    /// Returns the groups of process `pid`. Version 1 lists none for a process that has died.
    pub fn of(pid: u32) -> Self {
        let read = |path: &str| text::read(path).unwrap_or_default();
        Self::find(&read(&format!("/proc/{pid}/cgroup")), &read("/proc/self/mountinfo"))
    }

    fn find(groups: &str, mountinfo: &str) -> Self {
        let has_memory = |names: &str| names.split(',').any(|name| name == "memory");
        let group = |(controllers, path): (&str, &str)| {
            let is_second = controllers.is_empty();
            let is_it = |mount: &Mount| match mount.options {
                None => is_second,
                Some(options) => has_memory(controllers) && has_memory(options),
            };
            let mount = mounts(mountinfo).find(is_it)?;
            let below = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
            let point = mount.point.into();
            Some(Group { is_second, path: path.into(), below: below.into(), point })
        };
        Self(lines_of(groups).filter_map(group).collect())
    }

    /// The one that counts memory: where both versions are mounted, that of the first.
    pub fn of_memory(&self) -> Option<&Group> {
        self.0.iter().min_by_key(|group| group.is_second)
    }

    /// The closest limit of the groups and those above them; `None` where there is none, or none can be seen.
    pub fn limit(&self) -> Option<Limit> {
        self.limit_by(read)
    }

    fn limit_by(&self, read: impl Fn(&Path) -> Option<String>) -> Option<Limit> {
        let levels =
            self.0.iter().flat_map(|group| group.below.ancestors().map(move |at| (group, at)));
        let limits = levels.filter_map(|(group, level)| {
            let [limit_name, used_name, shared_name, cache_name] = if group.is_second {
                ["memory.max", "memory.current", "shmem", "file"]
            } else {
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_shmem", "total_cache"]
            };
            let directory = group.point.join(level.strip_prefix("/").unwrap_or(level));
            let number = |name: &str| read(&directory.join(name))?.trim().parse::<u64>().ok();
            let limit_bytes = number(limit_name).filter(|&limit| limit < NO_LIMIT)?;
            let used_bytes = number(used_name)?;
            let stat = read(&directory.join("memory.stat")).unwrap_or_default();
            let of = |name: &str| {
                let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
                stat.lines().find_map(value).unwrap_or(0)
            };
            let shared_memory_bytes = of(shared_name);
            Some(Limit {
                limit_bytes,
                used_bytes,
                shared_memory_bytes,
                page_cache_bytes: of(cache_name).saturating_sub(shared_memory_bytes),
                group: level.display().to_string(),
            })
        });
        limits.min_by_key(Limit::left_bytes)
    }

    /// How they fare now: bounds are of the version that counts memory, waiting of the second.
    pub fn pressure(&self) -> Pressure {
        self.pressure_by(read)
    }

    fn pressure_by(&self, read: impl Fn(&Path) -> Option<String>) -> Pressure {
        let Some(group) = self.of_memory() else { return Pressure::default() };
        let names: &[&str] = if group.is_second {
            &["memory.events"]
        } else {
            &["memory.failcnt", "memory.oom_control"]
        };
        let bounds: Vec<String> = names.iter().filter_map(|name| read(&group.file(name))).collect();
        // The root has no events: what waits there is the machine.
        let is_second =
            |group: &&Group| group.is_second && read(&group.file("cgroup.events")).is_some();
        let second = self.0.iter().find(is_second);
        let waiting =
            second.and_then(|group| read(&group.file("memory.pressure"))).unwrap_or_default();
        let some = waiting.lines().find_map(|line| line.strip_prefix("some avg10="));
        let percent = some.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        Pressure {
            limit_events: bounds.iter().flat_map(|file| file.lines()).filter_map(bound_count).sum(),
            is_stalled: percent.is_some_and(|percent| percent >= STALLED_PERCENT),
        }
    }
}

impl Group {
    fn file(&self, name: &str) -> PathBuf {
        self.point.join(self.below.strip_prefix("/").unwrap_or(&self.below)).join(name)
    }

    /// Processes of this group that the OOM killer has ended since it was made.
    pub fn oom_kills(&self) -> Option<u64> {
        // Events of the groups below are no business of this process: `.local` where the kernel has it (5.2).
        let names: &[&str] = if self.is_second {
            &["memory.events.local", "memory.events"]
        } else {
            &["memory.oom_control"]
        };
        names.iter().find_map(|name| oom_kills_in(&read(&self.file(name))?))
    }
}

fn read(path: &Path) -> Option<String> {
    text::read(path).ok()
}

fn oom_kills_in(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// `max 4`, or the whole of memory.failcnt.
fn bound_count(line: &str) -> Option<u64> {
    const BOUNDS: [&str; 4] = ["high", "max", "oom", "oom_kill"];
    match line.split_once(' ') {
        Some((name, count)) if BOUNDS.contains(&name) => count.parse().ok(),
        Some(_) => None,
        None => line.parse().ok(),
    }
}

/// The hierarchy's controllers (none: version 2) and the path of each line of a process's cgroup file.
pub(crate) fn lines_of(groups: &str) -> impl Iterator<Item = (&str, &str)> {
    groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

/// A file system of control groups.
pub(crate) struct Mount<'a> {
    pub root: &'a str,
    pub point: &'a str,
    /// Mount options of version 1, which name the controllers of the file system.
    pub options: Option<&'a str>,
}

/// Those of a mountinfo.
pub(crate) fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let (kind, rest) = system.split_once(' ')?;
        let options = match kind {
            "cgroup2" => None,
            "cgroup" => Some(rest.rsplit(' ').next()?),
            _ => return None,
        };
        let mut fields = mount.split(' ').skip(3);
        Some(Mount { root: fields.next()?, point: fields.next()?, options })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    const BOTH: &str = "\
30 23 0:26 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n\
33 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
34 30 0:31 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    fn file(files: &[(&str, &str)], path: &Path) -> Option<String> {
        let path = path.strip_prefix("/sys/fs/cgroup").unwrap();
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, contents)| format!("{contents}\n"))
    }

    #[test]
    fn closest_limit_may_lie_above() {
        let files = [
            ("a/memory.max", "1000"),
            ("a/memory.current", "900"),
            ("a/memory.stat", "anon 100\nfile 700\nshmem 500\nshmem_thp 3"),
            ("a/b/memory.max", "max"),
            ("a/b/memory.current", "700"),
        ];
        let limit = Groups::find("0::/a/b\n", SECOND).limit_by(|path| file(&files, path));
        assert_eq!(
            limit,
            Some(Limit {
                limit_bytes: 1000,
                used_bytes: 900,
                shared_memory_bytes: 500,
                page_cache_bytes: 200,
                group: "/a".into()
            })
        );
    }

    #[test]
    fn version_1_limits_are_read() {
        let files = [
            ("memory/y/memory.limit_in_bytes", "4096000"),
            ("memory/y/memory.usage_in_bytes", "4096"),
            ("memory/y/memory.stat", "cache 1\ntotal_cache 900\ntotal_shmem 300"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.usage_in_bytes", "9999"),
        ];
        let groups = Groups::find("5:memory,hugetlb:/docker/x/y\n3:cpu:/docker/x\n", BOTH);
        assert_eq!(
            groups.limit_by(|path| file(&files, path)),
            Some(Limit {
                limit_bytes: 4_096_000,
                used_bytes: 4096,
                shared_memory_bytes: 300,
                page_cache_bytes: 600,
                group: "/y".into()
            })
        );
        assert!(Groups::find("3:cpu:/a\n", BOTH).0.is_empty());
    }

    #[test]
    fn memory_group_is_chosen() {
        let groups = Groups::find("0::/other\n5:memory:/docker/x/y\n3:cpu:/z\n", BOTH);
        let group = groups.of_memory().unwrap();
        assert_eq!(group.path, "/docker/x/y");
        let path = Path::new("/sys/fs/cgroup/memory/y/memory.oom_control");
        assert_eq!(group.file("memory.oom_control"), path);
        let groups = Groups::find("0::/a/b\n", BOTH);
        let path = Path::new("/sys/fs/cgroup/unified/a/b/memory.events");
        assert_eq!(groups.of_memory().unwrap().file("memory.events"), path);
        assert_eq!(Groups::find("3:cpu:/z\n", SECOND).of_memory(), None);
    }

    #[test]
    fn oom_kills_are_counted_in_both() {
        assert_eq!(oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(oom_kills_in("low 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(oom_kills_in("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn pressure_has_events_and_stalls() {
        let events = "low 9\nhigh 3\nmax 4\noom 1\noom_kill 1\noom_group_kill 5";
        let waiting = "some avg10=12.34 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00";
        let second = Groups::find("0::/a/b\n", SECOND);
        let files = [
            ("a/b/memory.events", events),
            ("a/b/cgroup.events", ""),
            ("a/b/memory.pressure", waiting),
        ];
        let of = |groups: &Groups, files| groups.pressure_by(|path| file(files, path));
        let limit_events = 9;
        assert_eq!(of(&second, &files), Pressure { limit_events, is_stalled: true });
        // The root of version 2.
        assert_eq!(of(&second, &files[..1]), Pressure { limit_events, is_stalled: false });
        let some = "some avg10=9.99 avg60=99.00";
        let files = [("a/b/cgroup.events", ""), ("a/b/memory.pressure", some)];
        assert_eq!(of(&second, &files), Pressure::default());
    }

    #[test]
    fn hybrid_pressure_uses_both_versions() {
        let files = [
            ("memory/y/memory.failcnt", "17"),
            ("memory/y/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2"),
            ("unified/c/memory.events", "max 5"),
            ("unified/c/cgroup.events", ""),
            ("unified/c/memory.pressure", "some avg10=10.00"),
        ];
        let groups = Groups::find("5:memory:/docker/x/y\n0::/c\n", BOTH);
        let pressure = groups.pressure_by(|path| file(&files, path));
        assert_eq!(pressure, Pressure { limit_events: 19, is_stalled: true });
        let none = Groups::find("3:cpu:/z\n", SECOND);
        assert_eq!(none.pressure_by(|_| None), Pressure::default());
    }
}
