//! Keeps a folder of cache files under a bound: what was used longest ago goes first.

use std::fs::{self, File, FileTimes, Metadata};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What ends in this is being written; renamed when it is whole.
pub(crate) const TEMPORARY: &str = "tmp";
/// A temporary file this old belongs to a writer that is gone.
const TEMPORARY_AGE: Duration = Duration::from_secs(3600);

/// Marks the file as used now. By its access time: the time of change tells whether the content is still the same.
pub(crate) fn touch(path: &Path) {
    let times = FileTimes::new().set_accessed(SystemTime::now());
    // Another user's file cannot be marked, and is then removed a little early.
    let _ = File::open(path).and_then(|file| file.set_times(times));
}

/// Removes files with this extension until the rest fits, and what dead writers left.
pub(crate) fn evict(folder: &Path, extension: &str, max_total_bytes: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let now = SystemTime::now();
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = entry.metadata() else { continue };
        let Some(used) = last_use(&metadata) else { continue };
        let found = path.extension();
        if found == Some(TEMPORARY.as_ref()) {
            if now.duration_since(used).unwrap_or_default() > TEMPORARY_AGE {
                let _ = fs::remove_file(path);
            }
        } else if found == Some(extension.as_ref()) {
            files.push((used, metadata.len(), path));
        }
    }
    files.sort();
    let mut total_bytes: u64 = files.iter().map(|(_, size_bytes, _)| size_bytes).sum();
    for (_, size_bytes, path) in files {
        if total_bytes <= max_total_bytes {
            break;
        }
        let _ = fs::remove_file(path);
        total_bytes -= size_bytes;
    }
}

fn last_use(metadata: &Metadata) -> Option<SystemTime> {
    Some(metadata.modified().ok()?.max(metadata.accessed().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_used_longest_ago_go_first_and_only_until_the_rest_fits() {
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
        evict(folder, "symbols", 3500);
        let entries = fs::read_dir(folder).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let expected =
            [".eeee.2.0.tmp", "aaaa.symbols", "cccc.symbols", "dddd.symbols", "not-ours"];
        assert_eq!(left, expected);
    }
}
