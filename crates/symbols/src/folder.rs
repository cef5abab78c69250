//! A folder of files by build ID, under a bound: what was used longest ago goes first.
//!
//! Writers write another file and rename it, so readers and other writers see whole files only.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use crate::binary::is_build_id;

/// Extension of a file that is being written; the writer renames the file when it is whole.
const TEMPORARY: &str = "tmp";
/// A temporary file this old belongs to a writer that is gone.
const TEMPORARY_AGE: Duration = Duration::from_secs(3600);

pub(crate) struct Folder {
    pub path: PathBuf,
    pub extension: &'static str,
    pub max_total_bytes: u64,
}

impl Folder {
    /// Path of the file of this build ID, whether or not the file exists. `None`: not a build ID.
    pub fn place(&self, build_id: &str) -> Option<PathBuf> {
        is_build_id(build_id).then(|| self.path.join(format!("{build_id}.{}", self.extension)))
    }

    /// Paths and names of other people's programs are nobody else's business.
    pub fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// A file to write, to rename to its place, and then to `evict`; it goes if it is not renamed.
    pub fn temporary(&self) -> io::Result<NamedTempFile> {
        self.make()?;
        tempfile::Builder::new().suffix(&format!(".{TEMPORARY}")).tempfile_in(&self.path)
    }

    /// Removes files until the rest fits, and what dead writers left.
    pub fn evict(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(metadata) = entry.metadata() else { continue };
            let (Ok(changed), Ok(read)) = (metadata.modified(), metadata.accessed()) else {
                continue;
            };
            let used = changed.max(read);
            let found = path.extension();
            if found == Some(TEMPORARY.as_ref()) {
                if now.duration_since(used).unwrap_or_default() > TEMPORARY_AGE {
                    let _ = fs::remove_file(path);
                }
            } else if found == Some(self.extension.as_ref()) {
                files.push((used, metadata.len(), path));
            }
        }
        files.sort();
        let mut total_bytes: u64 = files.iter().map(|(_, size_bytes, _)| size_bytes).sum();
        for (_, size_bytes, path) in files {
            if total_bytes <= self.max_total_bytes {
                break;
            }
            let _ = fs::remove_file(path);
            total_bytes -= size_bytes;
        }
    }
}

/// Marks the file as used now. By its access time: the time of change tells whether the content is still the same.
pub(crate) fn touch(path: &Path) {
    let times = FileTimes::new().set_accessed(SystemTime::now());
    // Another user's file cannot be marked, and is then removed a little early.
    let _ = File::open(path).and_then(|file| file.set_times(times));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_files_go_until_rest_fits() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        let write = |name: &str, age_s: u64| {
            let file = File::create(folder.join(name)).unwrap();
            file.set_len(1000).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age_s);
            file.set_times(FileTimes::new().set_accessed(then).set_modified(then)).unwrap();
        };
        write("aaaa.symbols", 30);
        write("bbbb.symbols", 90);
        write("cccc.symbols", 60);
        write("dddd.symbols", 120);
        write("not-ours", 9000);
        write(".eeee.1.0.tmp", 9000);
        write(".eeee.2.0.tmp", 10);
        touch(&folder.join("dddd.symbols"));
        Folder { path: folder.to_owned(), extension: "symbols", max_total_bytes: 3500 }.evict();
        let entries = fs::read_dir(folder).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let expected =
            [".eeee.2.0.tmp", "aaaa.symbols", "cccc.symbols", "dddd.symbols", "not-ours"];
        assert_eq!(left, expected);
    }
}
