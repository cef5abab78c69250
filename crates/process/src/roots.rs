//! The root directory of a process in a container or after a chroot, and where it is in our own file system.

use crate::asked::DIRECTORY;
use crate::{text, watched};
use ramson_apart::{Apart, Owner, for_owner};
use ramson_paths::{Root, RootIdentity};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A root directory that is not ours.
#[derive(Debug)]
pub struct OtherRoot {
    /// Which one it is.
    pub identity: RootIdentity,
    /// Path at which the root directory is found from here; `None` if there is no such path.
    pub path: Option<PathBuf>,
}

/// The root directory of process `pid`; `None`: it is ours, or may not be looked at.
pub fn other_root(pid: u32) -> Option<OtherRoot> {
    let its = Root::of_process(pid).ok()?;
    let identity = its.identity().ok()?;
    let own = Root::at(Path::new("/")).ok()?.identity().ok()?;
    (identity != own).then(|| {
        let owner = Owner::of_process(pid);
        let is_it = |path: &PathBuf| told_root(path, owner) == Some(identity);
        let own_mounts = text::read("/proc/self/mountinfo").unwrap_or_default();
        let mounted = places_of_mount(&watched::mounts(pid), &own_mounts);
        let path = its.path().into_iter().chain(mounted).find(is_it);
        OtherRoot { identity, path }
    })
}

/// Which directory is at a path that a profile of `by`, or a process of that owner, tells.
pub fn told_root(path: &Path, by: Option<Owner>) -> Option<RootIdentity> {
    let found = match by.and_then(for_owner) {
        None => Root::told(path),
        Some(by) => {
            return Root::told_ours(path)
                .and_then(|root| root.identity())
                .ok()
                .or_else(|| their_directory(&by, path));
        }
    };
    found.and_then(|root| root.identity()).ok()
}

/// Which directory an owner finds at a path; `None`: none that the owner may look at.
fn their_directory(by: &Apart, path: &Path) -> Option<RootIdentity> {
    let found: Option<(u64, u64, u64)> =
        by.ask_for(DIRECTORY, &path.as_os_str().as_bytes()).ok()?;
    found.map(|(device, inode, birth_ns)| RootIdentity { device, inode, birth_ns })
}

/// Returns the paths at which the mount that a process has as its root directory may be in another mount namespace. Both texts are as mountinfo has
/// them (proc(5)).
fn places_of_mount(its: &str, own: &str) -> Vec<PathBuf> {
    // A later mount hides what was there.
    let Some((device, root, _)) = its.lines().filter_map(mount).rfind(|mount| mount.2 == "/")
    else {
        return Vec::new();
    };
    let place = |line| {
        let (its_device, its_root, point) = mount(line)?;
        let below = root.strip_prefix(its_root.trim_end_matches('/'))?;
        let is_below = its_device == device && (below.is_empty() || below.starts_with('/'));
        is_below.then(|| plain(&format!("{}{below}", point.trim_end_matches('/'))))
    };
    own.lines().filter_map(place).collect()
}

/// Device, root in its file system, and mount point.
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let mut fields = line.split(' ').skip(2);
    Some((fields.next()?, fields.next()?, fields.next()?))
}

/// Decodes bytes that the kernel wrote as three octal digits: spaces, and bytes that end lines.
fn plain(escaped: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = escaped.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let octal =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_root_is_no_other() {
        assert!(other_root(std::process::id()).is_none());
        assert!(other_root(u32::MAX).is_none());
    }

    #[test]
    fn container_mount_is_found() {
        let its =
            "700 600 0:99 / / rw - overlay overlay rw\n701 700 0:5 / /proc rw - proc proc rw\n";
        let own = "20 1 8:1 / / rw - ext4 /dev/a rw\n\
                   21 20 0:99 / /var/lib/containers/a\\040b/merged rw shared:3 - overlay overlay rw\n";
        assert_eq!(places_of_mount(its, own), [Path::new("/var/lib/containers/a b/merged")]);
        // A directory of a file system that we have elsewhere.
        let bound = "700 600 8:1 /srv/roots/one / rw - ext4 /dev/a rw\n";
        assert_eq!(places_of_mount(bound, own), [Path::new("/srv/roots/one")]);
        let below =
            "30 1 8:1 /srv /data rw - ext4 /dev/a rw\n31 1 8:1 /sr /other rw - ext4 /dev/a rw\n";
        assert_eq!(places_of_mount(bound, below), [Path::new("/data/roots/one")]);
        assert!(places_of_mount("", own).is_empty());
    }
}
