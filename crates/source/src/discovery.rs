//! All profiles of this machine that this user may read.

use crate::failure::Failure;
use crate::file::{
    failure_of, list_file, mapped_header, member_failure, open_member, open_outline, outline_file,
    read_file,
};
use crate::maps::{bytes_of, has_mapped};
use crate::places::opened_profile_directories;
use crate::recording::Recording;
use crate::running::own_pid;
use ramson_apart::Failure::UsedUp;
use ramson_apart::{OWNERS_AT_ONCE, Owner, end_of_user, on_all};
use ramson_paths::{Directory, MapIdentity};
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

/// Looks for profiles, at those of one user beside those of others: they may keep their reader waiting.
struct Search<W, R, M> {
    is_wanted: W,
    read: R,
    /// Opens the profile that a process has mapped.
    open: fn(u32) -> Option<Recording>,
    map: M,
    /// Processes in other PID namespaces, by the IDs that they have there: their files do not tell where they run.
    elsewhere: HashMap<u32, Vec<u32>>,
    /// Profiles of running processes that were found.
    running: Mutex<HashSet<(u32, u64, u64)>>,
}

/// What is looked at for the sake of one user.
#[derive(Default)]
struct Share {
    pids: Vec<u32>,
    directories: Vec<Directory>,
}

/// What one user's share has: each result with the start of the recording, and the reasons why others cannot be read.
struct Part<T> {
    /// `None`: root and the caller.
    user: Option<u32>,
    found: Vec<(u64, T)>,
    unreadable: Vec<String>,
}

/// The profiles whose header is wanted: files in the usual directories, and what this user's processes have mapped elsewhere.
pub fn all_with(is_wanted: impl Fn(&Header) -> bool + Sync) -> Discovery<Recording> {
    let read = |path: &Path, bytes: &MappedBytes, _| read_file(path, &bytes.file);
    Search::new(is_wanted, read, open_member, |recording| recording).all()
}

/// The same of their headers only.
pub fn outlines_with(is_wanted: impl Fn(&Header) -> bool + Sync) -> Discovery<Recording> {
    let read =
        |path: &Path, bytes: &MappedBytes, header| Ok(outline_file(path, &bytes.file, header));
    Search::new(is_wanted, read, open_outline, |recording| recording).all()
}

/// Calls `map` with each profile, and returns the results. The profiles are not all in memory at once, and files are read only as far as
/// a list needs it: header and what lives.
pub fn list_all<T: Send>(map: impl Fn(Recording) -> T + Sync) -> Discovery<T> {
    // Before any file is looked at: whose process began later is not known to have ended.
    let pids: HashSet<u32> = processes::all().into_iter().collect();
    Search::new(|_| true, |path, bytes, _| list_file(path, bytes, &pids), open_member, map).all()
}

/// The same in parts. `each` is called from any thread, and with whether the part is of other users, whose profiles may come late.
pub fn list_each<T: Send>(
    map: impl Fn(Recording) -> T + Sync,
    each: impl Fn(Discovery<T>, bool) + Sync,
) {
    let pids: HashSet<u32> = processes::all().into_iter().collect();
    let read = |path: &Path, bytes: &MappedBytes, _| list_file(path, bytes, &pids);
    let search = Search::new(|_| true, read, open_member, map);
    let left_out = search.each(|Part { user, found, unreadable }| {
        let found = found.into_iter().map(|(_, value)| value).collect();
        each(Discovery { found, unreadable, left_out: Vec::new() }, user.is_some());
    });
    each(Discovery { unreadable: watched::silent(), left_out, ..Discovery::default() }, true);
}

/// What is root's and the caller's first, then what is each other user's, and the reasons why directories are left out.
fn shares() -> (Vec<(Option<u32>, Share)>, Vec<String>) {
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
    (shares.into_iter().collect(), left_out)
}

impl<W, R, M, T> Search<W, R, M>
where
    W: Fn(&Header) -> bool + Sync,
    R: Fn(&Path, &MappedBytes, Header) -> Result<Recording, Failure> + Sync,
    M: Fn(Recording) -> T + Sync,
    T: Send,
{
    fn new(is_wanted: W, read: R, open: fn(u32) -> Option<Recording>, map: M) -> Self {
        let mut elsewhere: HashMap<u32, Vec<u32>> = HashMap::new();
        for pid in processes::all() {
            if let Some(own_pid) = own_pid(pid).filter(|&own_pid| own_pid != pid) {
                elsewhere.entry(own_pid).or_default().push(pid);
            }
        }
        Self { is_wanted, read, open, map, elsewhere, running: Mutex::default() }
    }

    fn all(&self) -> Discovery<T> {
        let parts = Mutex::new(Vec::new());
        let left_out = self.each(|part| locked(&parts).push(part));
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for part in parts.into_inner().unwrap_or_else(PoisonError::into_inner) {
            found.extend(part.found);
            unreadable.extend(part.unreadable);
        }
        found.sort_by_key(|(start_ns, _)| *start_ns);
        unreadable.extend(watched::silent());
        let found = found.into_iter().map(|(_, value)| value).collect();
        Discovery { found, unreadable, left_out }
    }

    /// Calls `each` with each part as soon as it is there, from any thread. Returns the reasons why directories are left out.
    fn each(&self, each: impl Fn(Part<T>) + Sync) -> Vec<String> {
        let (shares, left_out) = shares();
        let look = |(): &mut (), (user, share): &(Option<u32>, Share)| {
            each(self.part(*user, share));
            user.iter().copied().for_each(end_of_user);
        };
        on_all(&shares, OWNERS_AT_ONCE, || (), look);
        left_out
    }

    fn part(&self, user: Option<u32>, share: &Share) -> Part<T> {
        let headers = share.pids.iter().filter_map(|&pid| Some((pid, mapped_header(pid)?.0)));
        let wanted = headers.filter(|(_, header)| (self.is_wanted)(header));
        let mut unseen: HashMap<_, u32> =
            wanted.map(|(pid, header)| (header.identity(), pid)).collect();
        let mut found = Vec::new();
        let mut keep = |recording: Recording| {
            let header = &recording.snapshot.header;
            // The file in one share may be of a process in another.
            if recording.running.is_none() || locked(&self.running).insert(header.identity()) {
                found.push((header.start_realtime_ns, (self.map)(recording)));
            }
        };
        let mut unreadable = Vec::new();
        let is_called_so = |name: &OsStr| name.as_bytes().ends_with(b".ramson");
        let mut keep_file = |mut recording: Recording, identity: MapIdentity| {
            if recording.running.is_none()
                && let Some(pid) = self.find_elsewhere(&recording, &identity)
            {
                recording.begin_to_run(pid);
            }
            if recording.running.is_some() {
                unseen.remove(&recording.snapshot.header.identity());
            }
            keep(recording);
        };
        let Self { is_wanted, read, .. } = self;
        for directory in &share.directories {
            let keep = &mut keep_file;
            each_file_in(directory, &is_called_so, is_wanted, read, keep, &mut unreadable);
        }
        for pid in unseen.into_values() {
            match (self.open)(pid) {
                Some(recording) => keep(recording),
                None => unreadable.extend(member_failure(pid).map(|failure| failure.to_string())),
            }
        }
        Part { user, found, unreadable }
    }

    /// The process in another PID namespace that has a file of its user mapped.
    fn find_elsewhere(&self, recording: &Recording, file: &MapIdentity) -> Option<u32> {
        let user = recording.owner?.user;
        let mut pids = self.elsewhere.get(&recording.snapshot.header.pid)?.iter().copied();
        pids.find(|&pid| {
            Owner::of_process(pid).is_some_and(|owner| owner.user == user)
                && has_mapped(pid, file).unwrap_or(false)
        })
    }
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut keep = |recording, _| found.push(recording);
    let read = |path: &Path, bytes: &MappedBytes, _| read_file(path, &bytes.file);
    each_file_in(directory, &is_named, &is_wanted, &read, &mut keep, &mut Vec::new());
    found
}

fn each_file_in(
    directory: &Directory,
    is_named: &impl Fn(&OsStr) -> bool,
    is_wanted: &impl Fn(&Header) -> bool,
    read: &impl Fn(&Path, &MappedBytes, Header) -> Result<Recording, Failure>,
    keep: &mut impl FnMut(Recording, MapIdentity),
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
                "{}: only the newest {MOST_FILES_OF_OTHERS} of its files are read. \"ramson report FILE\" reads any other",
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
        let identity = MapIdentity::from(opened.facts);
        let bytes = bytes_of(opened);
        let read = match Header::read(&bytes) {
            Ok(header) if is_wanted(&header) => read(&file, &bytes, header),
            Err(ReadError::Apart(failure @ UsedUp)) => {
                let (path, left) = (path.display(), all - number);
                unreadable.push(format!("{path}: {left} files {failure}. {}", failure.next_step()));
                return;
            }
            Err(error @ ReadError::Apart(_)) => Err(failure_of(&file, &error)),
            _ => continue,
        };
        match read {
            Ok(recording) => keep(recording, identity),
            Err(failure) => unreadable.push(failure.to_string()),
        }
    }
}

/// When the process began, by the name of its profile: the library names profiles PID-TICKS, and may add a number.
fn start_ticks(name: &str) -> Option<u64> {
    name.split_once('-')?.1.split(['-', '.']).next()?.parse().ok()
}

/// Whether a profile of this name may be of a process that began at `began_ticks` or later.
fn may_have_begun(name: &str, began_ticks: u64) -> bool {
    let mut numbers = name.split('-').skip(1).map(|part| part.parse::<u64>().unwrap_or(0));
    let (ticks, rest) = (numbers.next().unwrap_or(0), numbers.next());
    // An attach adds a count of cycles, a PID namespace its own number.
    let is_in_namespace = rest.is_some_and(|number| number <= u64::from(u32::MAX));
    ticks == 0 || is_in_namespace || ticks >= began_ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_name_tells_earlier_start() {
        assert!(!may_have_begun("4711-99", 100));
        assert!(may_have_begun("4711-100", 100));
        assert!(!may_have_begun("4711-99-191990698862935", 100));
        // In a PID namespace of its own, of an unknown time, or called so by a user: its header has to tell.
        assert!(may_have_begun("7-99-4026532000", 100));
        assert!(may_have_begun("7-0-191990698862935", 100));
        assert!(may_have_begun("before", 100));
    }
}
