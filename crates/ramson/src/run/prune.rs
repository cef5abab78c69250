//! Keeps a directory of profiles within bounds. Profiles that are too old are removed. If the others take too much space, the newest and
//! the largest stay, and the rest become one sum for each command line, or one for an executable that has many. Profiles of running
//! processes and files that are no profiles of ours are never touched.

use super::summing::{self, is_sum};
use crate::flags::values::{DAY_NS, parse_age, parse_total};
use crate::output::remark;
use ramson_format::{DEFAULT_FILE_BYTES, MAGIC, flags};
use ramson_paths::{Directory, Entry, RegularFile};
use ramson_process::clock::unix_ns;
use ramson_profile::format::format_bytes;
use ramson_reader::{Header, Snapshot};
use ramson_source::places::open_directory;
use ramson_source::{Sum, own_pids, runs_anywhere};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A younger file without a whole header may be that of a process that is just beginning.
const LEAST_AGE_NS: i128 = 60_000_000_000;
/// Files that one pass takes away: it ends soon, and the next one goes on.
const MOST_AT_ONCE: usize = 1 << 13;
/// A sum is not larger than such a part of the whole room.
const ROOMS: u64 = 16;
/// If one executable has more command lines in a pass than this, its profiles become one sum: a compiler's are as many as its files.
const MOST_COMMAND_LINES: usize = 32;

/// Which profiles stay; the largest value is no bound.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub age_ns: u64,
    /// Disk space that all profiles of one directory may take together, in bytes.
    pub total_bytes: u64,
    /// A process whose profiles stay in any case.
    pub spared: Option<u32>,
}

impl Bounds {
    /// As `RAMSON_PRUNE_AGE` and `RAMSON_PRUNE_SIZE` have them; what does not parse removes nothing.
    pub fn from_environment() -> Self {
        Self {
            age_ns: setting("RAMSON_PRUNE_AGE", 30 * DAY_NS, parse_age),
            total_bytes: setting("RAMSON_PRUNE_SIZE", 1 << 30, parse_total),
            spared: None,
        }
    }
}

fn setting(name: &str, default: u64, parse: fn(&str) -> Result<u64, &'static str>) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    parse(&text).unwrap_or_else(|expected| {
        remark(format_args!("{name}={text}: {expected}. ramson ignores this limit"));
        u64::MAX
    })
}

/// The result of one pass over a directory.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Pruned {
    /// The directory.
    pub directory: PathBuf,
    /// How many profiles were removed.
    pub removed: u64,
    /// How many were added to sums, and then removed.
    pub summed: u64,
    /// Disk space that this freed, in bytes.
    pub bytes: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let directory = self.directory.display();
        let bytes = format_bytes(self.bytes as f64);
        let profiles = |count| if count == 1 { "old profile" } else { "old profiles" };
        match (self.removed, self.summed) {
            (0, 0) => write!(f, "{directory}: no profile exceeds the limits on age and size"),
            (count, 0) => write!(f, "{directory}: removed {count} {}, {bytes}", profiles(count)),
            (0, count) => write!(f, "{directory}: summed {count} {}, {bytes}", profiles(count)),
            (removed, count) => write!(
                f,
                "{directory}: removed {removed} and summed {count} {}, {bytes}",
                profiles(count)
            ),
        }
    }
}

/// Takes what is beyond the bounds out of one directory of profiles. Marks lie elsewhere and stay. `None` if the directory cannot be
/// opened, or another process is at it.
pub fn prune(path: &Path, bounds: Bounds) -> Option<Pruned> {
    let directory = open_directory(path).ok().filter(Directory::lock)?;
    summing::finish(&directory);
    let mut entries = candidates(&directory);
    let now_ns = i128::from(unix_ns());
    let before_bytes = size_of(&entries);
    // In the future: a clock was set back, nothing is known.
    entries.retain(|entry| entry.facts.modified_ns <= now_ns);
    let spared = bounds.spared.map(|pid| format!("{pid}-"));
    let is_spared = |name: &OsStr| {
        spared.as_ref().is_some_and(|pid| name.as_encoded_bytes().starts_with(pid.as_bytes()))
    };
    let spared_bytes =
        size_of(&entries.extract_if(.., |entry| is_spared(&entry.name)).collect::<Vec<_>>());
    let mut pass = Pass { directory, now_ns, pids: own_pids(), removed: 0, summed: 0 };
    pass.remove_old(&mut entries, bounds.age_ns);
    let total_bytes = bounds.total_bytes.saturating_sub(spared_bytes);
    if size_of(&entries) > total_bytes {
        pass.sum_smaller(entries, total_bytes);
        pass.bound_sums(bounds.total_bytes);
    }
    let Pass { directory, removed, summed, .. } = pass;
    let after_bytes = if removed + summed > 0 { taken_bytes(&directory) } else { before_bytes };
    let bytes = before_bytes.saturating_sub(after_bytes);
    Some(Pruned { directory: path.to_owned(), removed, summed, bytes })
}

/// Files that a pass may take away, once they turn out to be profiles that are not in use.
fn candidates(directory: &Directory) -> Vec<Entry> {
    let mut entries = directory.entries().unwrap_or_default();
    entries.retain(|Entry { name, facts }| {
        facts.owner.user == geteuid().as_raw()
            && (is_called_as_the_library_does(name) || is_sum(name))
    });
    entries
}

fn taken_bytes(directory: &Directory) -> u64 {
    size_of(&candidates(directory))
}

fn size_of(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.facts.allocated_bytes).sum()
}

struct Pass {
    directory: Directory,
    now_ns: i128,
    /// IDs of all processes, each in its own namespace.
    pids: HashSet<u32>,
    removed: u64,
    summed: u64,
}

/// A profile of an ended process.
struct Dead {
    entry: Entry,
    /// `None`: it cannot be read, or is too large to be summed.
    header: Option<Header>,
    live_bytes: u64,
}

impl Pass {
    fn remove_old(&mut self, entries: &mut Vec<Entry>, age_ns: u64) {
        let modified_ns = |entry: &Entry| entry.facts.modified_ns;
        // A clock that jumped makes every profile old, but none older than the latest that was made.
        let newest_ns = entries.iter().map(modified_ns).max().unwrap_or(0);
        let latest_ns = newest_ns.max(self.directory.modified_ns()).min(self.now_ns);
        let is_old = |entry: &Entry| latest_ns - modified_ns(entry) > i128::from(age_ns);
        entries.retain(|entry| !(is_old(entry) && self.remove(entry)));
    }

    /// Sums what there is no room for: half of the room is for the newest, a quarter for the largest of the rest, and what is left for
    /// the sums.
    fn sum_smaller(&mut self, mut entries: Vec<Entry>, total_bytes: u64) {
        entries.sort_by_key(|entry| Reverse(entry.facts.modified_ns));
        entries.retain(|entry| !is_sum(&entry.name));
        let mut kept_bytes = 0;
        let mut rest = Vec::new();
        for entry in entries {
            let bytes = entry.facts.allocated_bytes;
            // Newest first: as soon as one has no room, older ones have none.
            if rest.is_empty() && kept_bytes + bytes <= total_bytes / 2 {
                kept_bytes += bytes;
            } else if rest.len() < MOST_AT_ONCE {
                match self.dead(entry) {
                    Some(dead) => rest.push(dead),
                    None => kept_bytes += bytes,
                }
            }
        }
        rest.sort_by_key(|dead| Reverse(dead.live_bytes));
        let largest_end = (kept_bytes.min(total_bytes / 2) + total_bytes / 4).max(kept_bytes);
        rest.retain(|dead| {
            let end = kept_bytes + dead.entry.facts.allocated_bytes;
            let is_kept = dead.header.is_some() && end <= largest_end;
            kept_bytes = if is_kept { end } else { kept_bytes };
            !is_kept
        });
        self.sum_up(rest, total_bytes);
    }

    /// Adds each to the sum of its command line, or of its executable if that has too many of them.
    fn sum_up(&mut self, rest: Vec<Dead>, total_bytes: u64) {
        let mut executables = BTreeMap::<u64, BTreeMap<u64, Vec<OsString>>>::new();
        for Dead { entry, header, .. } in rest {
            match header {
                Some(header) => {
                    let of_executable = executables.entry(key(&header, false)).or_default();
                    of_executable.entry(key(&header, true)).or_default().push(entry.name);
                }
                None => self.removed += u64::from(self.directory.remove(&entry.name).is_ok()),
            }
        }
        for (executable, groups) in executables {
            if groups.len() > MOST_COMMAND_LINES {
                let names: Vec<OsString> = groups.into_values().flatten().collect();
                let sum = Sum::of_executable_within(total_bytes / ROOMS);
                self.summed += summing::sum(&self.directory, executable, &names, sum);
                continue;
            }
            for (key, names) in groups {
                let sum = Sum::within(total_bytes / ROOMS);
                self.summed += summing::sum(&self.directory, key, &names, sum);
            }
        }
    }

    /// A quarter of the room is for the sums. If they take more, those of one executable become one, whatever their arguments. If the sums
    /// still take too much, those stay that were added to last.
    fn bound_sums(&mut self, total_bytes: u64) {
        let sums = self.sums();
        if size_of(&sums) <= total_bytes / 4 {
            return;
        }
        let mut groups = BTreeMap::<u64, Vec<OsString>>::new();
        for entry in sums.into_iter().take(MOST_AT_ONCE) {
            if let Some(Dead { header: Some(header), entry, .. }) = self.dead(entry) {
                groups.entry(key(&header, false)).or_default().push(entry.name);
            }
        }
        for (key, names) in groups.into_iter().filter(|(_, names)| names.len() > 1) {
            let sum = Sum::of_executable_within(total_bytes / ROOMS);
            summing::sum(&self.directory, key, &names, sum);
        }
        let sums = self.sums();
        let mut taken_bytes = size_of(&sums);
        for entry in sums {
            if taken_bytes > total_bytes / 4 && self.directory.remove(&entry.name).is_ok() {
                taken_bytes -= entry.facts.allocated_bytes;
                self.removed += 1;
            }
        }
    }

    /// Those that were added to first come first.
    fn sums(&self) -> Vec<Entry> {
        let mut sums = candidates(&self.directory);
        sums.retain(|entry| is_sum(&entry.name));
        sums.sort_by_key(|entry| entry.facts.modified_ns);
        sums
    }

    /// Removes it, if it is of no process that may run.
    fn remove(&mut self, entry: &Entry) -> bool {
        let is_removed =
            self.dead(entry.clone()).is_some() && self.directory.remove(&entry.name).is_ok();
        self.removed += u64::from(is_removed);
        is_removed
    }

    /// `None`: it is no profile, nor what is left of an emptied one, or may be in use. Nobody writes a file whose lock is free: a process takes
    /// it before the header is whole; and one that was profiled by a library that took none is found by its mapping.
    fn dead(&self, entry: Entry) -> Option<Dead> {
        let RegularFile { file, facts, .. } = self.directory.open_file(&entry.name).ok()?;
        let header = Header::read(&file).ok();
        let is_young = self.now_ns - entry.facts.modified_ns < LEAST_AGE_NS;
        let is_its = facts.inode == entry.facts.inode
            && (facts.bytes == 0 || is_profile(&file))
            && (header.is_some() || !is_young)
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let may_run =
            |header: &Header| self.pids.contains(&header.pid) && runs_anywhere(header, &file);
        let is_dead = is_its && !header.as_ref().is_some_and(may_run);
        let header = header.filter(|_| facts.allocated_bytes <= DEFAULT_FILE_BYTES);
        is_dead.then(|| Dead { entry, header, live_bytes: live_bytes(&file) })
    }
}

/// 0 if that cannot be read.
fn live_bytes(profile: &File) -> u64 {
    let live = Snapshot::read_live(profile).map_or_else(|_| Vec::new(), |read| read.live);
    live.iter().map(|sample| sample.size as f64 * sample.inverse_probability).sum::<f64>() as u64
}

/// Hash of the properties that the profiles of a sum share: the executable in its root directory, its arguments if
/// `with_arguments`, and how they were recorded.
fn key(header: &Header, with_arguments: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    let name = header.command.first();
    let arguments: Vec<_> = header.command.iter().skip(1).filter(|_| with_arguments).collect();
    (&header.exe, name, arguments, with_arguments).hash(&mut hasher);
    header.root.as_ref().map(|root| root.to_bytes()).hash(&mut hasher);
    (header.flags & (flags::ATTACHED | flags::HOOKED)).hash(&mut hasher);
    hasher.finish()
}

fn is_profile(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC
}

/// As the library names files: two or three numbers. A file with another name is kept.
pub fn is_called_as_the_library_does(name: &OsStr) -> bool {
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
    fn chosen_names_are_not_pruned() {
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
    fn prune_bounds_are_parsed() {
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
