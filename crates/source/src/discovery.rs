//! All profiles of this machine that this user may read.

use crate::file::{open_found, open_map, profile_maps, read_file};
use crate::recording::Recording;
use crate::{namespaces, places};
use ramson_reader::Header;
use std::fs;
use std::path::PathBuf;

/// Every profile that can be found: files in the usual directories, and what this user's processes have mapped elsewhere.
pub fn all() -> Vec<Recording> {
    matching(|_| true)
}

/// Those of `all` whose header is wanted. Of files, only these are read whole: a build may leave thousands.
pub fn matching(is_wanted: impl Fn(&Header) -> bool) -> Vec<Recording> {
    let paths = places::profile_directories()
        .into_iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ramson"));
    let read = |path: PathBuf| {
        let file = open_found(&path)?;
        Header::read(&file).ok().filter(&is_wanted)?;
        read_file(&path, &file).ok()
    };
    let mut found: Vec<Recording> = paths.filter_map(read).collect();
    let known: Vec<u32> = found.iter().filter_map(|source| source.running).collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if known.contains(&pid) {
            continue;
        }
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
        if maps.contains("/libramson.so") {
            // A forked child still has its parent's profile mapped; that one names the parent.
            let own_pid = namespaces::own_pid(pid);
            let own = profile_maps(&maps).find_map(|map| {
                open_map(pid, &map).filter(|source| {
                    let header = &source.snapshot.header;
                    Some(header.pid) == own_pid && is_wanted(header)
                })
            });
            let Some(own) = own else { continue };
            // In another PID namespace, its file did not tell where it runs.
            match found.iter_mut().find(|known| namespaces::is_same(known, &own)) {
                Some(known) => known.running = Some(pid),
                None => found.push(own),
            }
        }
    }
    found.sort_by_key(|source| source.snapshot.header.start_realtime_ns);
    found
}
