//! Which processes there are: by their name, their ancestors, and their control group of either version.

use crate::cgroup::{self, Mount};
use crate::identify::{base_name, called_name};
use crate::{clock, stat, text, watched};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of systemd's units, and of the links that are their other names.
const UNIT_DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Most bytes of a command line that are read; a program may show any length.
const MOST_COMMAND_BYTES: u64 = 64 << 10;

/// Every process ID, ascending. A process may be gone by the time that it is looked at.
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Those whose first thread, executable or program as it was called has this name.
pub fn named(name: &str) -> Vec<u32> {
    all().into_iter().filter(|&pid| is_named(pid, name)).collect()
}

fn is_named(pid: u32, name: &str) -> bool {
    let comm = text::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let exe = executable(pid).unwrap_or_default();
    let exe = exe.to_string_lossy();
    let command = command(pid);
    let called = called_name(command.first().map_or("", String::as_str), &exe);
    let script = script(base_name(&exe), &command);
    !name.is_empty() && [comm.trim_ascii_end(), base_name(&exe), called, script].contains(&name)
}

/// The file name of the script that an interpreter runs; empty for other programs.
pub fn script<'a>(executable: &str, command: &'a [String]) -> &'a str {
    const INTERPRETERS: [&str; 7] = ["python", "node", "ruby", "php", "perl", "bash", "lua"];
    let is_one = INTERPRETERS.iter().any(|name| executable.starts_with(name));
    let arguments = command.iter().skip(1).filter(|_| is_one);
    arguments
        .take_while(|word| *word != "-c")
        .find(|word| !word.starts_with('-'))
        .map_or("", |it| base_name(it))
}

/// A process and its descendants. A process whose parent has ended belongs to another ancestor.
pub fn tree(root: u32) -> Vec<u32> {
    let pids = all();
    let parents = pids.iter().filter_map(|&pid| Some((pid, parent(pid)?)));
    let mut found = descendants(root, &parents.collect());
    found.retain(|pid| pids.contains(pid));
    found
}

fn descendants(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&above) = found.get(at) {
        let children = parents.iter().filter(|&(&pid, &parent)| parent == above && pid != root);
        found.extend(children.map(|(pid, _)| pid));
        at += 1;
    }
    found
}

/// Returns the ancestors of a process: its parent, the parent's parent, and so on, up to the first process.
pub fn above(pid: u32) -> Vec<u32> {
    let next = |pid: &u32| parent(*pid).filter(|&above| above != 0);
    std::iter::successors(next(&pid), next).collect()
}

fn parent(pid: u32) -> Option<u32> {
    stat::number(pid, 4)?.try_into().ok()
}

/// Those in a control group and in groups below it. `path` is as /proc/PID/cgroup has it, or a directory below a mount point.
pub fn of_group(path: &str) -> Vec<u32> {
    let mounts = text::read("/proc/self/mountinfo").unwrap_or_default();
    // A directory may be spelt in many ways; a path of a group is one of its own.
    let directory = fs::canonicalize(path).unwrap_or_default();
    let directory = directory.to_str().map(|directory| GroupPath::new(directory, &mounts));
    let wanted = directory.filter(|directory| directory.mount.is_some());
    let wanted = wanted.unwrap_or_else(|| GroupPath::new(path, &mounts));
    with_groups(|groups| wanted.has(groups))
}

/// Those of a systemd unit, of the system or of a user, by one of its names.
pub fn of_unit(name: &str) -> Vec<u32> {
    let name = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
    let found = with_groups(|groups| is_of_unit(groups, &name));
    let is_alias = |unit: &String| found.is_empty() && *unit != name;
    match unit_behind(&name).filter(is_alias) {
        Some(unit) => with_groups(|groups| is_of_unit(groups, &unit)),
        None => found,
    }
}

/// The path of a process's executable, as the kernel tells it.
pub fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// redis.service may be a link to redis-server.service.
fn unit_behind(name: &str) -> Option<String> {
    UNIT_DIRECTORIES.iter().find_map(|directory| {
        let target = fs::read_link(Path::new(directory).join(name)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    })
}

fn with_groups(is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
    let groups = |pid: u32| text::read(format!("/proc/{pid}/cgroup"));
    all().into_iter().filter(|&pid| groups(pid).is_ok_and(|groups| is_wanted(&groups))).collect()
}

fn is_of_unit(groups: &str, unit: &str) -> bool {
    cgroup::lines_of(groups).any(|(_, path)| path.split('/').any(|part| part == unit))
}

struct GroupPath<'a> {
    path: String,
    /// Mount of the control groups' file system, if the path is a directory below a mount point.
    mount: Option<Mount<'a>>,
}

impl<'a> GroupPath<'a> {
    fn new(path: &str, mountinfo: &'a str) -> Self {
        let path = format!("/{}", path.trim_matches('/'));
        let below = cgroup::mounts(mountinfo).filter_map(|mount| {
            let rest = path.strip_prefix(mount.point)?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            is_below.then(|| (format!("{}{rest}", mount.root.trim_end_matches('/')), mount))
        });
        // A mount point may be below another.
        match below.max_by_key(|(_, mount)| mount.point.len()) {
            Some((path, mount)) => Self { path, mount: Some(mount) },
            None => Self { path, mount: None },
        }
    }

    fn has(&self, groups: &str) -> bool {
        let is_hierarchy = |controllers: &str| match self.mount.as_ref().map(|mount| mount.options)
        {
            None => true,
            Some(None) => controllers.is_empty(),
            Some(Some(options)) => {
                controllers.split(',').all(|name| options.split(',').any(|option| option == name))
            }
        };
        let above = self.path.trim_end_matches('/');
        let is_in = |path: &str| {
            path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        cgroup::lines_of(groups).any(|(controllers, path)| is_hierarchy(controllers) && is_in(path))
    }
}

/// The words of its command line as they are now: a server may tell there what it does. Empty where it has none.
pub fn command(pid: u32) -> Vec<String> {
    let line = watched::start(pid, "cmdline", MOST_COMMAND_BYTES).unwrap_or_default();
    let end = line.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let words = line[..end].split(|&byte| byte == 0).filter(|_| end > 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The user that it runs as: the real one, which owns what it does.
pub fn user(pid: u32) -> Option<u32> {
    let status = text::read(format!("/proc/{pid}/status")).ok()?;
    stat::line(&status, "Uid")?.split_whitespace().next()?.parse().ok()
}

/// How long ago a process that began `start_ticks` after boot did so.
pub fn age_ns(start_ticks: u64) -> u64 {
    let ns_per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    clock::since_boot_ns().saturating_sub(start_ticks * ns_per_tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_once() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9), (1, 1)].into();
        assert_eq!(descendants(1, &parents), [1, 2, 5, 3, 4]);
        assert_eq!(descendants(3, &parents), [3, 4]);
    }

    #[test]
    fn own_process_is_found() {
        let own = std::process::id();
        let comm = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(named(comm.trim_end()).contains(&own));
        assert!(tree(parent(own).unwrap()).contains(&own));
        assert_eq!(command(own), std::env::args().collect::<Vec<_>>());
        let age_ns = age_ns(crate::stat::Stat::of(own).unwrap().start_ticks);
        assert!(age_ns < 3_600_000_000_000, "{age_ns}");
    }

    #[test]
    fn unit_is_part_of_path() {
        let of_system = "0::/system.slice/redis.service\n";
        let of_user = "0::/user.slice/user-7.slice/user@7.service/app.slice/redis.service/child\n";
        assert!(is_of_unit(of_system, "redis.service"));
        assert!(is_of_unit(of_user, "redis.service") && is_of_unit(of_user, "user@7.service"));
        assert!(!is_of_unit("0::/system.slice/my-redis.service\n", "redis.service"));
        assert!(is_of_unit(
            "4:memory:/\n1:name=systemd:/system.slice/redis.service\n",
            "redis.service"
        ));
    }

    #[test]
    fn group_has_only_those_below() {
        let wanted = GroupPath::new("/a/b/", "");
        assert!(wanted.has("0::/a/b\n") && wanted.has("3:cpu:/x\n2:memory:/a/b/c\n"));
        assert!(!wanted.has("0::/a/bc\n") && !wanted.has("0::/a\n"));
        assert!(GroupPath::new("/", "").has("0::/anything\n"));
    }

    #[test]
    fn directory_names_group_of_hierarchy() {
        let mounts = "\
33 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
34 30 0:31 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
35 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let wanted = GroupPath::new("/sys/fs/cgroup/memory/a", mounts);
        assert!(wanted.has("4:memory:/docker/x/a/b\n"));
        assert!(!wanted.has("3:cpu,cpuacct:/docker/x/a\n") && !wanted.has("0::/docker/x/a\n"));
        let wanted = GroupPath::new("/sys/fs/cgroup/unified/a", mounts);
        assert!(wanted.has("0::/a\n") && !wanted.has("4:memory:/a\n"));
        assert!(GroupPath::new("/sys/fs/cgroup/cpu", mounts).has("3:cpu,cpuacct:/any\n"));
    }
}
