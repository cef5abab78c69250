//! Old profiles are removed, by age and by size; never that of a process that runs, never a file that is no profile or not ours.

use crate::flags::values::{DAY_NS, parse_age, parse_total};
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
use std::time::SystemTime;

/// A younger file may be that of a process that is just beginning.
const LEAST_AGE_NS: u64 = 60_000_000_000;

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

/// A file that may be removed if it turns out to be a profile that is not in use.
struct Candidate {
    path: PathBuf,
    age_ns: u64,
    bytes: u64,
    inode: u64,
}

/// Removes what is beyond the bounds from one directory of profiles, and says what that was, if
/// anything: `removed 3 old profiles, 1.81 MiB`. Marks lie elsewhere and stay.
pub fn prune(directory: &Path, bounds: Bounds) -> Option<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut candidates: Vec<Candidate> =
        entries.filter_map(|entry| candidate(entry.ok()?.path())).collect();
    candidates.sort_by_key(|candidate| candidate.age_ns);
    let (mut count, mut bytes) = (0, 0);
    let mut total_bytes = candidates.iter().map(|candidate| candidate.bytes).sum::<u64>();
    for candidate in candidates.iter().rev() {
        let is_beyond = candidate.age_ns > bounds.age_ns || total_bytes > bounds.total_bytes;
        if is_beyond && candidate.age_ns >= LEAST_AGE_NS && remove(candidate) {
            total_bytes -= candidate.bytes;
            bytes += candidate.bytes;
            count += 1;
        }
    }
    let profiles = if count == 1 { "profile" } else { "profiles" };
    let bytes = format_bytes(bytes as f64);
    (count > 0).then(|| format!("removed {count} old {profiles}, {bytes}"))
}

fn candidate(path: PathBuf) -> Option<Candidate> {
    let facts = path.symlink_metadata().ok()?;
    let is_ours = facts.is_file() && facts.uid() == geteuid().as_raw();
    let is_called_so = is_called_as_the_library_does(&path);
    // Since the last sample or the end. In the future: a clock was set back, nothing is known.
    let age = SystemTime::now().duration_since(facts.modified().ok()?).ok()?;
    let (age_ns, bytes, inode) = (age.as_nanos() as u64, facts.blocks() * 512, facts.ino());
    (is_ours && is_called_so).then_some(Candidate { path, age_ns, bytes, inode })
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
