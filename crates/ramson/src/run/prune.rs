//! Old profiles are removed, by age and by size; never that of a process that runs, never a file that is no profile or not ours.

use crate::flags::values::{Bound, parse_age, parse_total};
use crate::output::remark;
use ramson_format::MAGIC;
use ramson_profile::format::format_bytes;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A younger file may be that of a process that is just beginning.
const LEAST_AGE: Duration = Duration::from_secs(60);
const DAY: u64 = 86_400;

/// Which profiles stay. `None`: no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub age: Option<Duration>,
    /// Of all profiles of one directory together, as they take space on disk.
    pub total_bytes: Option<u64>,
}

impl Bounds {
    pub const DEFAULT: Self =
        Self { age: Some(Duration::from_secs(30 * DAY)), total_bytes: Some(1 << 30) };

    /// As `RAMSON_PRUNE_AGE` and `RAMSON_PRUNE_SIZE` have them; what does not parse removes nothing.
    pub fn from_environment() -> Self {
        let Self { age, total_bytes } = Self::DEFAULT;
        Self {
            age: setting("RAMSON_PRUNE_AGE", age, parse_age),
            total_bytes: setting("RAMSON_PRUNE_SIZE", total_bytes, parse_total),
        }
    }
}

fn setting<T>(
    name: &str,
    default: Option<T>,
    parse: impl Fn(&str) -> Result<Bound<T>, String>,
) -> Option<T> {
    let Ok(text) = env::var(name) else { return default };
    match parse(&text) {
        Ok(bound) => bound.0,
        Err(expected) => {
            remark(format_args!("{name}={text}: {expected}. No profile is removed by it"));
            None
        }
    }
}

/// What was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub paths: Vec<PathBuf>,
    /// On disk.
    pub bytes: u64,
}

impl Pruned {
    /// `removed 3 old profiles, 1.81 MiB`; `None` if there were none.
    pub fn summary(&self) -> Option<String> {
        let count = self.paths.len();
        let profiles = if count == 1 { "profile" } else { "profiles" };
        let bytes = format_bytes(self.bytes as f64);
        (count > 0).then(|| format!("removed {count} old {profiles}, {bytes}"))
    }
}

/// A file that may be removed if it turns out to be a profile that is not in use.
struct Candidate {
    path: PathBuf,
    age: Duration,
    bytes: u64,
    inode: u64,
}

/// Removes what is beyond the bounds from one directory of profiles. Marks lie elsewhere and stay.
pub fn prune(directory: &Path, bounds: Bounds) -> Pruned {
    let mut candidates: Vec<Candidate> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| candidate(entry.ok()?.path()))
        .collect();
    candidates.sort_by_key(|candidate| candidate.age);
    let mut pruned = Pruned::default();
    let mut total_bytes = candidates.iter().map(|candidate| candidate.bytes).sum::<u64>();
    for candidate in candidates.iter().rev() {
        let is_old = bounds.age.is_some_and(|most| candidate.age > most);
        let is_too_much = bounds.total_bytes.is_some_and(|most| total_bytes > most);
        let may_go = (is_old || is_too_much) && candidate.age >= LEAST_AGE;
        if may_go && remove(candidate) {
            total_bytes -= candidate.bytes;
            pruned.bytes += candidate.bytes;
            pruned.paths.push(candidate.path.clone());
        }
    }
    pruned
}

/// A regular file of our own.
fn candidate(path: PathBuf) -> Option<Candidate> {
    let facts = path.symlink_metadata().ok()?;
    let is_ours = facts.is_file() && facts.uid() == geteuid().as_raw();
    let is_called_so = is_called_as_the_library_does(&path);
    // Since the last sample or the end. In the future: a clock was set back, nothing is known.
    let age = SystemTime::now().duration_since(facts.modified().ok()?).ok()?;
    (is_ours && is_called_so).then(|| Candidate {
        age,
        bytes: facts.blocks() * 512,
        inode: facts.ino(),
        path,
    })
}

/// Removes it, if it is a profile, or what is left of an emptied one, and is not in use. While we
/// hold its lock no process has it mapped; and a process that was profiled by a library that took
/// none is found by its mapping.
fn remove(candidate: &Candidate) -> bool {
    let no_follow = OFlags::NOFOLLOW.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(no_follow).open(&candidate.path);
    let Ok(file) = opened else { return false };
    let Ok(facts) = file.metadata() else { return false };
    facts.ino() == candidate.inode
        && (facts.len() == 0 || is_profile(&file))
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && !ramson_source::open_file(&candidate.path).is_ok_and(|found| found.running.is_some())
        && fs::remove_file(&candidate.path).is_ok()
}

fn is_profile(mut file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact(&mut magic).is_ok() && magic == MAGIC
}

/// As the library names files: two or three numbers. A file with another name is kept.
fn is_called_as_the_library_does(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".ramson"));
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
            assert!(is_called_as_the_library_does(Path::new(name)), "{name}");
        }
        for name in
            ["old.ramson", "1.ramson", "1-2", "1-2-deploy.ramson", "1-2-3-4.ramson", "1-.ramson"]
        {
            assert!(!is_called_as_the_library_does(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn bounds_are_read_as_they_are_written() {
        assert_eq!(parse_age("30d"), Ok(Bound(Some(Duration::from_secs(30 * DAY)))));
        assert_eq!(parse_age("90s"), Ok(Bound(Some(Duration::from_secs(90)))));
        assert_eq!(parse_age("off"), Ok(Bound(None)));
        assert_eq!(parse_total("1G"), Ok(Bound(Some(1 << 30))));
        assert_eq!(parse_total("off"), Ok(Bound(None)));
        for wrong in ["", "d", "-1d", "1w", "1.5d", "30", "99999999999999999d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
        assert!(parse_total("a lot").is_err());
    }
}
