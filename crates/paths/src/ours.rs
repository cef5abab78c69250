//! Which files are root's, whatever a file system says: those on a path where nobody else can put anything.

use crate::regular::Facts;
use ramson_apart::Owner;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, StatVfsMountFlags, fstat, fstatvfs, openat};
use std::path::{Component, Path};

/// Whether our own mounts show this very file at `path`, and only root and the user who runs this decide what is there.
///
/// A file system that another user has mounted is at another path, or allows no set-user-ID programs (`nosuid`), such as a medium or a file system in user
/// space: the owners of its files are only said.
pub(crate) fn is_ours(path: &Path, facts: &Facts) -> bool {
    let mut names = path.components();
    if names.next() != Some(Component::RootDir) || !facts.is_trusted() {
        return false;
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(mut found) = openat(CWD, "/", flags, Mode::empty()) else { return false };
    let mut names = names.peekable();
    while let Some(Component::Normal(name)) = names.next() {
        let Ok(next) = openat(&found, name, flags, Mode::empty()) else { return false };
        let Ok(stat) = fstat(&next) else { return false };
        if !is_safe(&stat) {
            return false;
        }
        found = next;
        if names.peek().is_none() {
            let is_it = (stat.st_dev, stat.st_ino) == (facts.device, facts.inode);
            let mount = fstatvfs(&found).map(|mount| mount.f_flag);
            return is_it && mount.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOSUID));
        }
    }
    false
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
    use crate::regular::RegularFile;
    use std::fs::{File, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_roots_paths_are_ours() {
        let facts = |path: &Path| RegularFile::given(File::open(path).unwrap()).unwrap().facts;
        let program = Path::new("/usr/bin/env").canonicalize().unwrap();
        assert!(is_ours(&program, &facts(&program)));
        assert!(!is_ours(Path::new("/usr/bin/true"), &facts(&program)));
        assert!(!is_ours(Path::new("usr/bin/env"), &facts(&program)));
        // Everybody may put something there.
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(facts(file.path()).is_trusted() && !is_ours(file.path(), &facts(file.path())));
        let directory = tempfile::tempdir_in("/root").expect("this test runs as root");
        let path = directory.path().join("program");
        std::fs::write(&path, "").unwrap();
        assert!(is_ours(&path, &facts(&path)));
        set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(!is_ours(&path, &facts(&path)));
    }
}
