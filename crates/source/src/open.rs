//! SRC: from what the user typed to a snapshot, and whether its process still runs; or to a foreign profile.

use crate::discovery::all;
use crate::failure::Failure;
use crate::file::{Opened, open_any_file, open_map, open_stream};
use crate::maps::profile_maps;
use crate::recording::{Recording, base_name, name_of};
use crate::{http, moment, namespaces};
use ramson_import::InuseAt;
use ramson_process::program;
use ramson_reader::Header;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Opens what the user named.
pub fn open(source: &str) -> Result<Opened, Failure> {
    if let Some(past) = moment::open(source)? {
        return Ok(Opened::Recording(past));
    }
    if let Some(name) = source.strip_prefix("name:") {
        return open_name(name).map(Opened::Recording);
    }
    if source == "-" {
        return open_stream("standard input", io::stdin().lock(), InuseAt::End);
    }
    if http::is_address(source) {
        return open_stream(source, http::fetch(source)?, InuseAt::End);
    }
    let is_number = !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && !Path::new(source).exists() {
        let pid =
            source.parse().map_err(|_| Failure::usage(format!("{source}: not a process ID")))?;
        return open_pid(pid).map(Opened::Recording);
    }
    let path = Path::new(source);
    match source.strip_suffix("@peak") {
        Some(recording) if !path.exists() => open_any_file(Path::new(recording), InuseAt::Peak),
        _ => open_any_file(path, InuseAt::End),
    }
}

/// Opens the profile of a process, running or dead.
fn open_pid(pid: u32) -> Result<Recording, Failure> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        let is_its =
            |found: &Recording| found.running.is_none() && found.snapshot.header.pid == pid;
        return newest(is_its).ok_or_else(|| {
            Failure::not_found(format!(
                "process {pid}: there is none, and it left no profile. \"ramson list\" shows the profiles there are"
            ))
        });
    }
    let maps = fs::read_to_string(process.join("maps")).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied if rustix::process::getuid().is_root() => Failure::failed(format!(
            "process {pid}: the kernel does not let even root look at it. Run ramson in its namespace or without confinement"
        )),
        ErrorKind::PermissionDenied => Failure::failed(format!(
            "process {pid}: it belongs to {}. Run ramson as that user or as root",
            owner_of(&process)
        )),
        _ => Failure::not_found(format!("process {pid}: {error}")),
    })?;
    // A forked child still has its parent's profile mapped, too.
    let own_pid = namespaces::own_pid(pid);
    let mut sources: Vec<Recording> =
        profile_maps(&maps).filter_map(|map| open_map(pid, &map)).collect();
    let own = sources.iter().position(|source| Some(source.snapshot.header.pid) == own_pid);
    if !sources.is_empty() {
        return Ok(sources.swap_remove(own.unwrap_or(0)));
    }
    if maps.contains("/libramson.so") {
        return Err(Failure::not_found(format!(
            "process {pid}: runs under ramson, but has no profile: it allocated less than the sampling interval, \
             recording is off, or somebody emptied its file. Try again later, or start it with a smaller --interval"
        )));
    }
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let why = match program::obstacle(&process.join("exe")) {
        Some(obstacle) => format!(": {obstacle}"),
        None => ". Start it with \"ramson run -- CMD\"".into(),
    };
    Err(Failure::not_found(format!("process {pid} ({}): not profiled{why}", name.trim())))
}

fn owner_of(process: &Path) -> String {
    let uid = process.metadata().map(|metadata| metadata.uid());
    uid.map_or_else(|_| "somebody else".into(), |uid| format!("user {uid}"))
}

/// Opens the profile of the process with this name: the one that runs, else the one that died last.
fn open_name(name: &str) -> Result<Recording, Failure> {
    let is_named =
        |header: &Header| [name_of(header), base_name(&header.exe), &header.comm].contains(&name);
    let mut running: Vec<u32> = all()
        .into_iter()
        .filter(|found| is_named(&found.snapshot.header))
        .filter_map(|found| found.running)
        .collect();
    running.sort_unstable();
    match running.as_slice() {
        [] => newest(|found| is_named(&found.snapshot.header)).ok_or_else(|| {
            Failure::not_found(format!(
                "name:{name}: no profiled process has that name. \"ramson list\" shows the profiles there are"
            ))
        }),
        [pid] => open_pid(*pid),
        pids => Err(several(name, pids)),
    }
}

/// A name that is no one's alone.
pub fn several(name: &str, pids: &[u32]) -> Failure {
    let (count, pids) = (pids.len(), pids.iter().map(u32::to_string).collect::<Vec<_>>());
    Failure::usage(format!(
        "name:{name}: {count} processes have that name ({}). Pass one of these process IDs",
        pids.join(", ")
    ))
}

fn newest(is_wanted: impl Fn(&Recording) -> bool) -> Option<Recording> {
    all().into_iter().filter(is_wanted).max_by_key(|found| found.snapshot.header.start_realtime_ns)
}

/// Opens a profile that libramson wrote: other formats do not say when each block was allocated.
pub fn open_recording(wanted: &str) -> Result<Recording, Failure> {
    match open(wanted)? {
        Opened::Recording(recording) => Ok(recording),
        Opened::Foreign(foreign) => Err(foreign.no_ages()),
    }
}
