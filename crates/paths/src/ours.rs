//! Files that are root's whatever a file system says: those on a path where nobody else can put anything.

use crate::directory::open_at;
use crate::regular::Refusal;
use ramson_apart::Owner;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;
use std::fs::read_to_string;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// Finds what is at `path`, if only root and the user who runs this decide what is there.
///
/// No file system of another user's is asked: one that a user has mounted allows no set-user-ID programs (`nosuid`), or is of FUSE.
pub(crate) fn find(path: &Path) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut found = openat(CWD, "/", flags, Mode::empty())?;
    let mut names = path.components();
    if names.next() != Some(Component::RootDir) {
        return Err(Refusal::Missing);
    }
    let mut at = PathBuf::from("/");
    for name in names {
        let Component::Normal(name) = name else { return Err(Refusal::Link) };
        at.push(name);
        found = match openat2(&found, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
            Err(Errno::XDEV) if !is_roots_mount(&at) => return Err(Refusal::Mount),
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => {
                open_at(&found, name.as_ref(), flags, true)?
            }
            opened => opened?,
        };
        if !is_safe(&fstat(&found)?) {
            return Err(Refusal::Link);
        }
    }
    Ok(found)
}

/// Whether what is mounted there is root's, by our own list of mounts: a later mount hides an earlier one.
fn is_roots_mount(place: &Path) -> bool {
    let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.rev().find(|fields| fields.get(4).is_some_and(|at| Path::new(at) == place));
    mount.is_some_and(|fields| {
        let kind = fields.iter().skip_while(|field| **field != "-").nth(1);
        let has_option =
            |field: Option<&&str>| field.is_some_and(|all| all.split(',').any(|it| it == "nosuid"));
        kind.is_some_and(|kind| !kind.starts_with("fuse")) && !has_option(fields.get(5))
    })
}

/// A directory or a file into which nobody else may write.
fn is_safe(stat: &Stat) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    let kind = FileType::from_raw_mode(stat.st_mode);
    matches!(kind, FileType::Directory | FileType::RegularFile)
        && Owner::of_user(stat.st_uid).is_trusted()
        && stat.st_mode & OTHERS_WRITE == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::set_permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_roots_paths_are_ours() {
        let program = Path::new("/usr/bin/env").canonicalize().unwrap();
        let is_ours = |path: &Path| find(path).is_ok();
        assert!(is_ours(&program) && is_ours(Path::new("/")));
        assert!(!is_ours(Path::new("usr/bin/env")) && !is_ours(Path::new("/usr/../usr/bin/env")));
        // Everybody may put something there.
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_ours(file.path()));
        let directory = tempfile::tempdir_in("/root").expect("this test runs as root");
        let path = directory.path().join("program");
        std::fs::write(&path, "").unwrap();
        assert!(is_ours(&path));
        std::os::unix::fs::symlink("program", directory.path().join("link")).unwrap();
        assert!(!is_ours(&directory.path().join("link")));
        set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(!is_ours(&path));
    }

    #[test]
    fn strangers_mounts_are_not_ours() {
        let directory = tempfile::tempdir_in("/root").expect("this test runs as root");
        let path = directory.path().join("file");
        let mount = |options: &str| {
            let script =
                "mount -t tmpfs -o $0 none $1 && touch $1/file && exec $2 --exact $3 --ignored";
            let own = std::env::current_exe().unwrap();
            let test = "ours::tests::file_is_ours";
            std::process::Command::new("unshare")
                .args(["--mount", "sh", "-c", script, options])
                .args([directory.path(), &own, Path::new(test)])
                .env("RAMSON_TEST_FILE", &path)
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(mount("mode=755"));
        assert!(!mount("mode=755,nosuid"));
    }

    #[test]
    #[ignore = "another test runs it, where a file system is mounted"]
    fn file_is_ours() {
        find(Path::new(&std::env::var_os("RAMSON_TEST_FILE").unwrap())).unwrap();
    }
}
