//! The memory limit of a process's control group, and how far off it is.

use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What version 1 says where there is no limit: pages, rounded, up to the largest number.
const NO_LIMIT: u64 = 1 << 62;

/// The limit that will be hit first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// memory.max, or memory.limit_in_bytes of version 1.
    pub limit_bytes: u64,
    /// memory.current, or memory.usage_in_bytes.
    pub used_bytes: u64,
    /// The group as the process's cgroup file names it, or one above it.
    pub group: String,
}

/// Of process `pid`, by either version; `None` where there is none, or none can be seen.
pub fn of(pid: u32) -> Option<Limit> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    closest(&groups, &mounts, |path| fs::read_to_string(path).ok())
}

/// The closest limit of the memory groups and those above them, read through `read`.
fn closest(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Limit> {
    let mut limits = Vec::new();
    for group in groups_of_memory(groups, mounts) {
        let (limit_name, used_name) = match group.is_second {
            true => ("memory.max", "memory.current"),
            false => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        };
        for level in Path::new(group.below).ancestors() {
            let directory = group.point.join(level.strip_prefix("/").unwrap_or(level));
            let number = |name: &str| read(&directory.join(name))?.trim().parse::<u64>().ok();
            let (limit, used) = (number(limit_name), number(used_name));
            if let (Some(limit_bytes), Some(used_bytes)) = (limit.filter(|&l| l < NO_LIMIT), used) {
                limits.push(Limit { limit_bytes, used_bytes, group: level.display().to_string() });
            }
        }
    }
    limits.into_iter().min_by_key(|limit| limit.limit_bytes.saturating_sub(limit.used_bytes))
}

/// A control group of a process that may count its memory.
pub struct Group<'a> {
    /// By version 2.
    pub is_second: bool,
    /// As the process's cgroup file names it.
    pub path: &'a str,
    /// The same below the mount point.
    below: &'a str,
    point: PathBuf,
}

impl Group<'_> {
    /// Where its files are.
    pub fn directory(&self) -> PathBuf {
        self.point.join(self.below.trim_start_matches('/'))
    }
}

/// Of the contents of a process's cgroup file and of mountinfo; none, one, or one of each version.
pub fn groups_of_memory<'a>(groups: &'a str, mounts: &str) -> Vec<Group<'a>> {
    let group = |line: &'a str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_second = controllers.is_empty();
        if !is_second && !controllers.split(',').any(|name| name == "memory") {
            return None;
        }
        let (root, point) = mount_of(mounts, if is_second { "cgroup2" } else { "cgroup" })?;
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
        Some(Group { is_second, path, below, point })
    };
    groups.lines().filter_map(group).collect()
}

/// Root and mount point of the memory controller's file system.
fn mount_of<'a>(mounts: &'a str, kind: &str) -> Option<(&'a str, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
        let is_it = system.next()? == kind && (kind == "cgroup2" || has_memory(system.nth(1)?));
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        is_it.then(|| (root, PathBuf::from(point)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(files: &[(&str, &str)], path: &Path) -> Option<String> {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, contents)| format!("{contents}\n"))
    }

    #[test]
    fn the_closest_limit_of_version_2_may_be_that_of_a_group_above() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let files = [
            ("/sys/fs/cgroup/a/memory.max", "1000"),
            ("/sys/fs/cgroup/a/memory.current", "900"),
            ("/sys/fs/cgroup/a/b/memory.max", "max"),
            ("/sys/fs/cgroup/a/b/memory.current", "700"),
        ];
        let limit = closest("0::/a/b\n", mounts, |path| file(&files, path));
        assert_eq!(limit, Some(Limit { limit_bytes: 1000, used_bytes: 900, group: "/a".into() }));
    }

    #[test]
    fn version_1_has_a_file_system_for_memory_and_no_limit_is_a_large_number() {
        let mounts = "\
33 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
34 30 0:31 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let files = [
            ("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "4096000"),
            ("/sys/fs/cgroup/memory/y/memory.usage_in_bytes", "4096"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "9999"),
        ];
        let groups = "5:memory,hugetlb:/docker/x/y\n3:cpu:/docker/x\n";
        let limit = closest(groups, mounts, |path| file(&files, path));
        assert_eq!(
            limit,
            Some(Limit { limit_bytes: 4_096_000, used_bytes: 4096, group: "/y".into() })
        );
        assert_eq!(closest("3:cpu:/a\n", mounts, |path| file(&files, path)), None);
    }
}
