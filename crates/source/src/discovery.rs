//! All profiles of this machine that this user may read.

use crate::failure::Failure;
use crate::file::{failure_of, list_file, mapped_header, member_failure, open_member, read_file};
use crate::maps::bytes_of;
use crate::places::opened_profile_directories;
use crate::recording::Recording;
use ramson_apart::Owner;
use ramson_paths::Directory;
use ramson_process::{processes, watched};
use ramson_reader::{Header, MappedBytes, ReadError};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files of another user's directory that are looked at: at 0.3 ms each that is 3 s. Profiles that the user's processes map are found in addition.
const MOST_FILES_OF_OTHERS: usize = 10_000;

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

/// Every profile that can be found: files in the usual directories, and what this user's processes have mapped elsewhere.
pub fn all() -> Discovery<Recording> {
    all_with(|_| true)
}

/// Those of them whose header is wanted.
pub fn all_with(is_wanted: impl Fn(&Header) -> bool) -> Discovery<Recording> {
    let read = |path: &Path, bytes: &MappedBytes| read_file(path, &bytes.file);
    map_all(is_wanted, read, |recording| recording)
}

/// Calls `map` with each profile, and returns the results. The profiles are not all in memory at once, and files are read only as far as
/// a list needs it: header and what lives.
pub fn list_all<T>(map: impl Fn(Recording) -> T) -> Discovery<T> {
    // Before any file is looked at: whose process began later is not known to have ended.
    let pids: HashSet<u32> = processes::all().into_iter().collect();
    map_all(|_| true, |path, bytes| list_file(path, bytes, &pids), map)
}

fn map_all<T>(
    is_wanted: impl Fn(&Header) -> bool,
    read: impl Fn(&Path, &MappedBytes) -> Result<Recording, Failure>,
    map: impl Fn(Recording) -> T,
) -> Discovery<T> {
    let headers = processes::all().into_iter().filter_map(|pid| Some((pid, mapped_header(pid)?.0)));
    let wanted = headers.filter(|(_, header)| is_wanted(header));
    let mut unseen: HashMap<_, u32> =
        wanted.map(|(pid, header)| (header.identity(), pid)).collect();
    let mut found = Vec::new();
    let mut keep = |recording: Recording| {
        let start_ns = recording.snapshot.header.start_realtime_ns;
        found.push((start_ns, map(recording)));
    };
    let mut unreadable = Vec::new();
    let (directories, left_out) = opened_profile_directories();
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
    for directory in &directories {
        each_file_in(directory, &is_called_so, &is_wanted, &read, &mut keep_file, &mut unreadable);
    }
    for pid in unseen.into_values() {
        match open_member(pid) {
            Some(recording) => keep(recording),
            None => unreadable.extend(member_failure(pid).map(|failure| failure.to_string())),
        }
    }
    unreadable.extend(watched::silent());
    found.sort_by_key(|(start_ns, _)| *start_ns);
    let found = found.into_iter().map(|(_, kept)| kept).collect();
    Discovery { found, unreadable, left_out }
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
    let most = if Owner::of_user(directory.owner()).is_trusted() {
        usize::MAX
    } else {
        MOST_FILES_OF_OTHERS
    };
    for (number, name) in directory.names().into_iter().flatten().enumerate() {
        if number == most {
            let path = directory.path().display();
            unreadable.push(format!(
                "{path}: only {most} of its files are looked at. \"ramson report FILE\" reads any other one"
            ));
            return;
        }
        if !is_named(&name) {
            continue;
        }
        // It may be removed at any time, and be no profile.
        let Ok(opened) = directory.open_file(&name) else { continue };
        // A file may have any number of names.
        let is_new = known.insert((opened.facts.device, opened.facts.inode));
        let path = directory.path().join(&name);
        let bytes = bytes_of(opened);
        match Header::read(&bytes) {
            Ok(header) if is_new && is_wanted(&header) => {}
            Err(error @ ReadError::Apart(_)) if is_new => {
                unreadable.push(failure_of(&path, &error).to_string());
                continue;
            }
            _ => continue,
        }
        match read(&path, &bytes) {
            Ok(recording) => keep(recording),
            Err(failure) => unreadable.push(failure.to_string()),
        }
    }
}

/// Whether a profile of this name may be of a process that began at `began_ticks` or later. The library names
/// profiles PID-TICKS.
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
