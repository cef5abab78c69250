//! Old profiles are removed, by age and by size; never that of a process that runs, never a file that is no profile or not ours.

use crate::flags::values::{DAY_NS, parse_age, parse_total};
use crate::output::remark;
use ramson_format::MAGIC;
use ramson_paths::{Directory, Entry};
use ramson_process::clock::unix_ns;
use ramson_profile::format::format_bytes;
use ramson_reader::Header;
use ramson_source::places::open_directory;
use ramson_source::runs_anywhere;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::Serialize;
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A younger file may be that of a process that is just beginning.
const LEAST_AGE_NS: i128 = 60_000_000_000;

/// Which profiles stay; the largest value is no bound.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub age_ns: u64,
    /// Of all profiles of one directory together, as they take space on disk.
    pub total_bytes: u64,
}

impl Bounds {
    /// As `RAMSON_PRUNE_AGE` and `RAMSON_PRUNE_SIZE` have them; what does not parse removes nothing.
    pub fn from_environment() -> Self {
        Self {
            age_ns: setting("RAMSON_PRUNE_AGE", 30 * DAY_NS, parse_age),
            total_bytes: setting("RAMSON_PRUNE_SIZE", 1 << 30, parse_total),
        }
    }
}

fn setting(name: &str, default: u64, parse: fn(&str) -> Result<u64, &'static str>) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    parse(&text).unwrap_or_else(|expected| {
        remark(format_args!("{name}={text}: {expected}. No profile is removed by it"));
        u64::MAX
    })
}

/// What was removed from a directory.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Pruned {
    /// The directory.
    pub directory: PathBuf,
    /// How many profiles.
    pub removed: u64,
    /// Bytes that they took on disk.
    pub bytes: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (directory, bytes) = (self.directory.display(), format_bytes(self.bytes as f64));
        match self.removed {
            0 => write!(f, "{directory}: no profile is older or larger than the bounds allow"),
            1 => write!(f, "{directory}: removed 1 old profile, {bytes}"),
            count => write!(f, "{directory}: removed {count} old profiles, {bytes}"),
        }
    }
}

/// Removes what is beyond the bounds from one directory of profiles. Marks lie elsewhere and stay. `None` if the directory cannot be
/// opened.
pub fn prune(path: &Path, bounds: Bounds) -> Option<Pruned> {
    let directory = open_directory(path).ok()?;
    let now_ns = i128::from(unix_ns());
    let mut candidates = directory.entries().ok()?;
    candidates.retain(|entry| is_candidate(entry, now_ns));
    candidates.sort_by_key(|entry| entry.facts.modified_ns);
    // A clock that jumped makes every profile old, but none older than the latest that was made.
    let newest_ns = candidates.last().map_or(0, |newest| newest.facts.modified_ns);
    let latest_ns = newest_ns.max(directory.modified_ns()).min(now_ns);
    let (mut count, mut bytes) = (0, 0);
    let size = |entry: &Entry| entry.facts.allocated_bytes;
    let mut total_bytes = candidates.iter().map(size).sum::<u64>();
    for entry in &candidates {
        let is_old = latest_ns - entry.facts.modified_ns > i128::from(bounds.age_ns);
        let is_young = now_ns - entry.facts.modified_ns < LEAST_AGE_NS;
        let is_beyond = is_old || total_bytes > bounds.total_bytes;
        if is_beyond && !is_young && remove(&directory, entry) {
            total_bytes -= size(entry);
            bytes += size(entry);
            count += 1;
        }
    }
    Some(Pruned { directory: path.to_owned(), removed: count, bytes })
}

/// Whether it may be removed if it turns out to be a profile that is not in use. In the future: a clock was set back, nothing is known.
fn is_candidate(entry: &Entry, now_ns: i128) -> bool {
    let is_ours = entry.facts.owner == geteuid().as_raw();
    is_ours && entry.facts.modified_ns <= now_ns && is_called_as_the_library_does(&entry.name)
}

/// Removes it, if it is a profile, or what is left of an emptied one, and is not in use. While we
/// hold its lock no process has it mapped; and a process that was profiled by a library that took
/// none is found by its mapping.
fn remove(directory: &Directory, entry: &Entry) -> bool {
    let Ok(opened) = directory.open_file(&entry.name) else { return false };
    let (file, facts) = (opened.file, opened.facts);
    facts.inode == entry.facts.inode
        && (facts.bytes == 0 || is_profile(&file))
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && !Header::read(&file).is_ok_and(|header| runs_anywhere(&header, &file))
        && directory.remove(&entry.name).is_ok()
}

fn is_profile(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC
}

/// As the library names files: two or three numbers. A file with another name is kept.
fn is_called_as_the_library_does(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_suffix(".ramson"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name.is_some_and(|name| {
        matches!(name.split('-').count(), 2 | 3) && name.split('-').all(is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_person_gave_are_none_of_the_library_s() {
        for name in ["1-2.ramson", "4711-123456-4026532000.ramson"] {
            assert!(is_called_as_the_library_does(name.as_ref()), "{name}");
        }
        for name in
            ["old.ramson", "1.ramson", "1-2", "1-2-deploy.ramson", "1-2-3-4.ramson", "1-.ramson"]
        {
            assert!(!is_called_as_the_library_does(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn bounds_are_read_as_they_are_written() {
        assert_eq!(parse_age("30d"), Ok(30 * DAY_NS));
        assert_eq!(parse_age("90s"), Ok(90_000_000_000));
        assert_eq!(parse_age("off"), Ok(u64::MAX));
        assert_eq!(parse_total("1G"), Ok(1 << 30));
        assert_eq!(parse_total("off"), Ok(u64::MAX));
        for wrong in ["", "d", "-1d", "1x", "1.5d", "30", "99999999999999999d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
        assert!(parse_total("a lot").is_err());
    }
}
