//! All profiles of this machine that this user may read.

use crate::failure::Failure;
use crate::file::{failure_of, list_file, mapped_header, member_failure, open_member, read_file};
use crate::maps::bytes_of;
use crate::places::opened_profile_directories;
use crate::recording::Recording;
use ramson_apart::Failure::UsedUp;
use ramson_apart::{Owner, end_of_user, on_all};
use ramson_paths::Directory;
use ramson_process::{processes, watched};
use ramson_reader::{Header, MappedBytes, ReadError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files of another user's directory that are looked at: at 0.3 ms each that is 3 s. Profiles that the user's processes map are found in addition.
const MOST_FILES_OF_OTHERS: usize = 10_000;
/// More names of a directory are not asked for.
const MOST_NAMES: usize = 1 << 20;
/// Users whose profiles are read at once, each by processes of their own.
const MOST_SHARES: usize = 4;

/// Profiles that were found, and the reasons why others could not be read.
pub struct Discovery<T> {
    /// By the start of the recording.
    pub found: Vec<T>,
    /// A reason for each profile that is wanted and cannot be read.
    pub unreadable: Vec<String>,
    /// A reason for each directory that was left out.
    pub left_out: Vec<String>,
}

impl<T> Default for Discovery<T> {
    fn default() -> Self {
        Self { found: Vec::new(), unreadable: Vec::new(), left_out: Vec::new() }
    }
}

/// What is looked at for the sake of one user, beside what is looked at for others: it may take its time.
#[derive(Default)]
struct Share {
    /// `None`: root and the caller.
    user: Option<u32>,
    pids: Vec<u32>,
    directories: Vec<Directory>,
}

/// What one share has.
struct Part<T> {
    found: Vec<Found<T>>,
    unreadable: Vec<String>,
    is_of_others: bool,
}

/// Process, start and number of the recording.
type Identity = (u32, u64, u64);

/// Called with each part as soon as it is there, from any thread.
type Each<'a, T> = &'a (dyn Fn(Part<T>) + Sync);

struct Found<T> {
    identity: Identity,
    start_ns: u64,
    is_running: bool,
    value: T,
}

/// Every profile that can be found: files in the usual directories, and what this user's processes have mapped elsewhere.
pub fn all() -> Discovery<Recording> {
    all_with(|_| true)
}

/// Those of them whose header is wanted.
pub fn all_with(is_wanted: impl Fn(&Header) -> bool + Sync) -> Discovery<Recording> {
    let read = |path: &Path, bytes: &MappedBytes| read_file(path, &bytes.file);
    collected(|each| map_all(is_wanted, read, |recording| recording, each))
}

/// Calls `map` with each profile, and returns the results. The profiles are not all in memory at once, and files are read only as far as
/// a list needs it: header and what lives.
pub fn list_all<T: Send>(map: impl Fn(Recording) -> T + Sync) -> Discovery<T> {
    collected(|each| list_parts(map, each))
}

/// The same, and calls `each` with a part of the results as soon as it is there, from any thread. Returns the reasons why directories are left
/// out.
fn list_parts<T: Send>(map: impl Fn(Recording) -> T + Sync, each: Each<T>) -> Vec<String> {
    // Before any file is looked at: whose process began later is not known to have ended.
    let pids: HashSet<u32> = processes::all().into_iter().collect();
    map_all(|_| true, |path, bytes| list_file(path, bytes, &pids), map, each)
}

/// Calls `each` with every part of a list, from any thread, and with whether the part is of other users, whose profiles may keep their reader
/// waiting.
pub fn list_each<T: Send>(
    map: impl Fn(Recording) -> T + Sync,
    each: impl Fn(Discovery<T>, bool) + Sync,
) {
    let left_out = list_parts(map, &|Part { found, unreadable, is_of_others }| {
        let found = found.into_iter().map(|found| found.value).collect();
        each(Discovery { found, unreadable, left_out: Vec::new() }, is_of_others);
    });
    each(Discovery { unreadable: watched::silent(), left_out, ..Discovery::default() }, true);
}

fn collected<T: Send>(map: impl FnOnce(Each<T>) -> Vec<String>) -> Discovery<T> {
    let parts = Mutex::new((Vec::new(), Vec::new()));
    let left_out = map(&|part: Part<T>| {
        let mut all = locked(&parts);
        all.0.extend(part.found);
        all.1.extend(part.unreadable);
    });
    let (mut found, mut unreadable) = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    // A profile that was read twice is of a process that runs.
    let running: HashSet<Identity> =
        found.iter().filter(|found| found.is_running).map(|found| found.identity).collect();
    found.retain(|found| found.is_running || !running.contains(&found.identity));
    found.sort_by_key(|found| found.start_ns);
    unreadable.extend(watched::silent());
    let found = found.into_iter().map(|found| found.value).collect();
    Discovery { found, unreadable, left_out }
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn map_all<T: Send>(
    is_wanted: impl Fn(&Header) -> bool + Sync,
    read: impl Fn(&Path, &MappedBytes) -> Result<Recording, Failure> + Sync,
    map: impl Fn(Recording) -> T + Sync,
    each: Each<T>,
) -> Vec<String> {
    let (shares, left_out) = shares();
    // The file in one share may be of a process in another.
    let running = Mutex::default();
    on_all(
        &shares,
        MOST_SHARES,
        || (),
        |(), share| {
            each(share.map(&is_wanted, &read, &map, &running));
            share.user.into_iter().for_each(end_of_user);
        },
    );
    left_out
}

/// What is root's and the caller's first, then what is each other user's, and the reasons why directories are left out.
fn shares() -> (Vec<Share>, Vec<String>) {
    let mut shares: BTreeMap<Option<u32>, Share> = BTreeMap::new();
    let user = |owner: Owner| Some(owner.user).filter(|_| !owner.is_trusted());
    for pid in processes::all() {
        if let Some(owner) = Owner::of_process(pid) {
            shares.entry(user(owner)).or_default().pids.push(pid);
        }
    }
    let (directories, left_out) = opened_profile_directories();
    for directory in directories {
        let user = user(Owner::of_user(directory.owner()));
        shares.entry(user).or_default().directories.push(directory);
    }
    let shares = shares.into_iter().map(|(user, share)| Share { user, ..share });
    (shares.collect(), left_out)
}

impl Share {
    fn map<T>(
        &self,
        is_wanted: &impl Fn(&Header) -> bool,
        read: &impl Fn(&Path, &MappedBytes) -> Result<Recording, Failure>,
        map: &impl Fn(Recording) -> T,
        running: &Mutex<HashSet<Identity>>,
    ) -> Part<T> {
        let headers = self.pids.iter().filter_map(|&pid| Some((pid, mapped_header(pid)?.0)));
        let wanted = headers.filter(|(_, header)| is_wanted(header));
        let mut unseen: HashMap<_, u32> =
            wanted.map(|(pid, header)| (header.identity(), pid)).collect();
        let mut found = Vec::new();
        let mut keep = |recording: Recording| {
            let identity = recording.snapshot.header.identity();
            let is_running = recording.running.is_some();
            if is_running && !locked(running).insert(identity) {
                return;
            }
            let start_ns = recording.snapshot.header.start_realtime_ns;
            found.push(Found { identity, start_ns, is_running, value: map(recording) });
        };
        let mut unreadable = Vec::new();
        let is_called_so = |name: &OsStr| name.as_bytes().ends_with(b".ramson");
        let mut keep_file = |mut recording: Recording| {
            let own_pid = recording.snapshot.header.pid;
            let identity = recording.snapshot.header.identity();
            let elsewhere = unseen.get(&identity).copied().filter(|&pid| pid != own_pid);
            if recording.running.is_none()
                && let Some(pid) = elsewhere
            {
                // In another PID namespace, its file does not tell where it runs.
                recording.begin_to_run(pid);
            }
            if recording.running.is_some() {
                unseen.remove(&identity);
            }
            keep(recording);
        };
        for directory in &self.directories {
            each_file_in(
                directory,
                &is_called_so,
                is_wanted,
                read,
                &mut keep_file,
                &mut unreadable,
            );
        }
        for pid in unseen.into_values() {
            match open_member(pid) {
                Some(recording) => keep(recording),
                None => unreadable.extend(member_failure(pid).map(|failure| failure.to_string())),
            }
        }
        Part { found, unreadable, is_of_others: self.user.is_some() }
    }
}

/// Those in files of the usual directories whose header is wanted, of processes that began at `began_ticks` or
/// later. A build may leave thousands of others: their names tell. Other PID namespaces are not searched.
pub fn files_since(began_ticks: u64, is_wanted: impl Fn(&Header) -> bool) -> Vec<Recording> {
    let is_named = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.strip_suffix(".ramson").is_some_and(|name| may_have_begun(name, began_ticks))
    };
    let (directories, _) = opened_profile_directories();
    let files = directories.iter().map(|directory| files_in(directory, is_named, &is_wanted));
    files.flatten().collect()
}

/// The same of the files of one directory whose names are wanted.
pub fn files_in(
    directory: &Directory,
    is_named: impl Fn(&OsStr) -> bool,
    is_wanted: impl Fn(&Header) -> bool,
) -> Vec<Recording> {
    let mut found = Vec::new();
    let mut keep = |recording| found.push(recording);
    let read = |path: &Path, bytes: &MappedBytes| read_file(path, &bytes.file);
    each_file_in(directory, &is_named, &is_wanted, &read, &mut keep, &mut Vec::new());
    found
}

fn each_file_in(
    directory: &Directory,
    is_named: &impl Fn(&OsStr) -> bool,
    is_wanted: &impl Fn(&Header) -> bool,
    read: &impl Fn(&Path, &MappedBytes) -> Result<Recording, Failure>,
    keep: &mut impl FnMut(Recording),
    unreadable: &mut Vec<String>,
) {
    let mut known = HashSet::new();
    let path = directory.path();
    let names = directory.names().into_iter().flatten();
    let mut names: Vec<OsString> = names.filter(|name| is_named(name)).take(MOST_NAMES).collect();
    if !Owner::of_user(directory.owner()).is_trusted() {
        // The newest are the most wanted.
        names.sort_by_cached_key(|name| Reverse(start_ticks(&name.to_string_lossy())));
        if names.len() > MOST_FILES_OF_OTHERS {
            names.truncate(MOST_FILES_OF_OTHERS);
            unreadable.push(format!(
                "{}: only {MOST_FILES_OF_OTHERS} of its files are looked at. \"ramson report FILE\" reads any other one",
                path.display()
            ));
        }
    }
    let all = names.len();
    for (number, name) in names.into_iter().enumerate() {
        // It may be removed at any time, and be no profile.
        let Ok(opened) = directory.open_file(&name) else { continue };
        // A file may have any number of names.
        if !known.insert((opened.facts.device, opened.facts.inode)) {
            continue;
        }
        let file = path.join(&name);
        let bytes = bytes_of(opened);
        let read = match Header::read(&bytes) {
            Ok(header) if is_wanted(&header) => read(&file, &bytes),
            Err(ReadError::Apart(failure @ UsedUp)) => {
                let (path, left) = (path.display(), all - number);
                unreadable.push(format!("{path}: {left} files {failure}. {}", failure.next_step()));
                return;
            }
            Err(error @ ReadError::Apart(_)) => Err(failure_of(&file, &error)),
            _ => continue,
        };
        match read {
            Ok(recording) => keep(recording),
            Err(failure) => unreadable.push(failure.to_string()),
        }
    }
}

/// When the process began, by the name of its profile: the library names profiles PID-TICKS.
fn start_ticks(name: &str) -> Option<u64> {
    name.split_once('-')?.1.split(['-', '.']).next()?.parse().ok()
}

/// Whether a profile of this name may be of a process that began at `began_ticks` or later.
fn may_have_begun(name: &str, began_ticks: u64) -> bool {
    let ticks = name.split_once('-').and_then(|(_, ticks)| ticks.parse::<u64>().ok());
    ticks.is_none_or(|ticks| ticks >= began_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_name_tells_earlier_start() {
        assert!(!may_have_begun("4711-99", 100));
        assert!(may_have_begun("4711-100", 100));
        // In a PID namespace of its own, or called so by a user: its header has to tell.
        assert!(may_have_begun("7-99-4026532000", 100));
        assert!(may_have_begun("before", 100));
    }
}
