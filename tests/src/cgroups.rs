//! Control groups for tests: as root, on a machine that has them.

use crate::servers::wait_until;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Control group in which systemd keeps the services of the system.
const SLICE: &str = "system.slice";

/// A memory control group of either version, removed when dropped.
pub struct Group(pub PathBuf);

impl Group {
    /// With this limit.
    pub fn new(limit_mib: u64) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let is_first = root.join("memory/memory.limit_in_bytes").exists();
        let parent = if is_first { root.join("memory") } else { root.to_owned() };
        if !is_first {
            // It may be on already; if it cannot be, the limit below fails.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        let limit = if is_first { "memory.limit_in_bytes" } else { "memory.max" };
        let made = TempDir::with_prefix_in("ramson-test-", &parent).map(TempDir::keep);
        made.and_then(|path| {
            fs::write(path.join(limit), (limit_mib << 20).to_string()).map(|()| Self(path))
        })
        .unwrap_or_else(|error| {
            panic!(
                "no memory control group can be made ({}: {error}): these tests need root and a writable /sys/fs/cgroup",
                parent.display()
            )
        })
    }

    /// As systemd makes one for the service `name`, without a limit.
    pub fn of_service(name: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let first = root.join("memory");
        let root = if first.join("memory.limit_in_bytes").exists() { first } else { root.into() };
        let path = root.join(SLICE).join(format!("{name}.service"));
        fs::create_dir_all(&path).unwrap_or_else(|error| {
            panic!(
                "no control group can be made ({}: {error}): these tests need root and a writable /sys/fs/cgroup",
                path.display()
            )
        });
        Self(path)
    }

    /// A shell command that goes into the group and becomes `command`.
    pub fn script(&self, command: &str) -> String {
        format!("echo $$ > {}/cgroup.procs && exec {command}", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was killed in it may still be going.
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
        if let Some(slice) = self.0.parent().filter(|slice| slice.ends_with(SLICE)) {
            // Not ours alone, if it is not empty.
            let _ = fs::remove_dir(slice);
        }
    }
}
