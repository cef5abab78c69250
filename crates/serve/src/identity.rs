//! Whether a file is still the one that was read.

use ramson_source::{Base, Selector};
use std::os::unix::fs::MetadataExt;

/// Identity of a file with its content: it changes if another file takes its place, or if the content changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// The identity of the file that a SRC names; `None`: the SRC names no file, or the file is not there.
    pub fn of(source: &str) -> Option<Self> {
        let Base::File(path) = Selector::parse(source).ok()?.base else { return None };
        let file = std::fs::metadata(path).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_file_has_another_identity() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stacks");
        let source = path.to_str().unwrap();
        assert_eq!(Identity::of(source), None);
        std::fs::write(&path, "a 1\n").unwrap();
        let first = Identity::of(source);
        assert!(first.is_some() && first == Identity::of(source));
        std::fs::write(&path, "a 10\n").unwrap();
        let written = Identity::of(source);
        assert_ne!(first, written);
        let other = directory.path().join("other");
        std::fs::write(&other, "a 20\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(written, Identity::of(source));
    }
}
