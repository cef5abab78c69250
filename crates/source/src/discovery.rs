//! All profiles of this machine that this user may read.

use crate::file::{open_member, read_file};
use crate::maps::open_found;
use crate::places;
use crate::recording::Recording;
use ramson_process::processes;
use ramson_reader::Header;
use std::fs;
use std::path::PathBuf;

/// Every profile that can be found: files in the usual directories, and what this user's processes have mapped elsewhere.
pub fn all() -> Vec<Recording> {
    all_with(|_| true)
}

/// Those of them whose header is wanted, by the start of their recording.
pub fn all_with(is_wanted: impl Fn(&Header) -> bool) -> Vec<Recording> {
    let mut found = files_since(0, &is_wanted);
    let known: Vec<u32> = found.iter().filter_map(|source| source.running).collect();
    for pid in processes::all().into_iter().filter(|pid| !known.contains(pid)) {
        let own = open_member(pid).filter(|own| is_wanted(&own.snapshot.header));
        let Some(own) = own else { continue };
        // In another PID namespace, its file did not tell where it runs.
        let identity = own.snapshot.header.identity();
        let is_it = |known: &&mut Recording| {
            known.running.is_none() && known.snapshot.header.identity() == identity
        };
        match found.iter_mut().find(is_it) {
            Some(known) => known.running = Some(pid),
            None => found.push(own),
        }
    }
    found.sort_by_key(|source| source.snapshot.header.start_realtime_ns);
    found
}

/// Those in files of the usual directories whose header is wanted, of processes that began at `began_ticks` or
/// later. A build may leave thousands of others: their names tell. Other PID namespaces are not searched.
pub fn files_since(began_ticks: u64, is_wanted: impl Fn(&Header) -> bool) -> Vec<Recording> {
    let paths = places::profile_directories()
        .into_iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.strip_suffix(".ramson").is_some_and(|name| may_have_begun(name, began_ticks))
        })
        .map(|entry| entry.path());
    let read = |path: PathBuf| {
        let file = open_found(&path)?;
        Header::read(&file).ok().filter(&is_wanted)?;
        read_file(&path, &file).ok()
    };
    paths.filter_map(read).collect()
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
    fn a_profile_s_name_tells_that_its_process_began_before() {
        assert!(!may_have_begun("4711-99", 100));
        assert!(may_have_begun("4711-100", 100));
        // In a PID namespace of its own, or called so by a user: its header has to tell.
        assert!(may_have_begun("7-99-4026532000", 100));
        assert!(may_have_begun("before", 100));
    }
}
