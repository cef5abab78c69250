//! SRC: from what the user typed to a snapshot, and whether its process still runs.

use crate::failure::Failure;
use crate::places;
use ramson_reader::{Header, ProcessMemory, ReadError, Snapshot};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A profile that was read.
pub struct Source {
    pub snapshot: Snapshot,
    /// The process, if it still runs and still writes this profile.
    pub running: Option<u32>,
    /// File, or `memory of process PID`.
    pub origin: String,
}

impl Source {
    /// The program's name as it was called (a link may have other names), else of the executable or the first thread.
    pub fn name(&self) -> &str {
        name_of(&self.snapshot.header)
    }
}

pub fn name_of(header: &Header) -> &str {
    let called = header.command.first().map_or("", |path| base_name(path));
    [called, base_name(&header.exe)]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(&header.comm)
}

fn base_name(path: &str) -> &str {
    path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default()
}

/// Opens what the user named.
pub fn open(source: &str) -> Result<Source, Failure> {
    if let Some(name) = source.strip_prefix("name:") {
        return open_name(name);
    }
    let is_number = !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && !Path::new(source).exists() {
        let pid =
            source.parse().map_err(|_| Failure::usage(format!("{source}: not a process ID")))?;
        return open_pid(pid);
    }
    open_file(Path::new(source))
}

/// Opens a profile file.
pub fn open_file(path: &Path) -> Result<Source, Failure> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::not_found(format!(
            "{shown}: no such file. Pass a process ID, name:NAME or a profile file; \"ramson list\" shows what there is"
        )),
        ErrorKind::PermissionDenied => {
            Failure::failed(format!("{shown}: permission denied. Run ramson as the file's owner or as root"))
        }
        _ => Failure::failed(format!("{shown}: {error}")),
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::failed(format!("{shown}: a directory. Pass one of the files in it")));
    }
    let snapshot = Snapshot::read(&file).map_err(|error| unreadable(&shown.to_string(), &error))?;
    let running = running_with(&snapshot.header, &file);
    Ok(Source { snapshot, running, origin: shown.to_string() })
}

fn unreadable(object: &str, error: &ReadError) -> Failure {
    let next = match error {
        ReadError::Version(_) => "Use the ramson that came with the library that wrote it",
        ReadError::Unfinished => "There is nothing to read in it; it can be removed",
        ReadError::Io(_) => "Check that it can be read",
        ReadError::Empty | ReadError::NotAProfile(_) => {
            "Pass the profile file; \"ramson run ./prog\" creates one"
        }
    };
    Failure::failed(format!("{object}: {error}. {next}"))
}

/// The process that wrote `header`, if it runs and still has `file` mapped: a process ID may be in use again, and exec keeps it.
fn running_with(header: &Header, file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let maps = fs::read_to_string(format!("/proc/{}/maps", header.pid)).ok()?;
    let is_mapped =
        shared_maps(&maps).any(|map| map.inode == metadata.ino() && map.is_on(metadata.dev()));
    is_mapped.then_some(header.pid)
}

/// A shared writable mapping, as a line of /proc/PID/maps tells.
struct SharedMap<'a> {
    start: u64,
    end: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

impl SharedMap<'_> {
    fn is_on(&self, device: u64) -> bool {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // Some file systems (overlayfs, btrfs) give maps another device than stat; the inode then has to do.
        self.device == (major, minor) || self.device.0 == 0 || major == 0
    }
}

fn shared_maps(maps: &str) -> impl Iterator<Item = SharedMap<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        if fields.next()? != "rw-s" || fields.next()? != "00000000" {
            return None;
        }
        let (major, minor) = fields.next()?.split_once(':')?;
        Some(SharedMap {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode: fields.next()?.parse().ok()?,
            path: fields.next().unwrap_or_default().trim_start(),
        })
    })
}

/// Opens the profile of a process, running or dead.
fn open_pid(pid: u32) -> Result<Source, Failure> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        return newest(|header| header.pid == pid).ok_or_else(|| {
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
    if let Some(source) = shared_maps(&maps).find_map(|map| open_map(pid, &map)) {
        return Ok(source);
    }
    if maps.contains("/libramson.so") {
        return Err(Failure::not_found(format!(
            "process {pid}: runs under ramson, but has no profile: it allocated less than the sampling interval, or \
             recording is off. Try again later, or start it with a smaller --interval"
        )));
    }
    Err(Failure::not_found(format!(
        "process {pid} ({}): not profiled. Start it with \"ramson run -- CMD\"",
        fs::read_to_string(process.join("comm")).unwrap_or_default().trim()
    )))
}

fn owner_of(process: &Path) -> String {
    let uid = process.metadata().map(|metadata| metadata.uid());
    uid.map_or_else(|_| "somebody else".into(), |uid| format!("user {uid}"))
}

/// The profile that a running process has mapped here, if this mapping is one.
fn open_map(pid: u32, map: &SharedMap) -> Option<Source> {
    let candidates = [format!("/proc/{pid}/root{}", map.path), map.path.to_owned()];
    for path in
        candidates.iter().filter(|_| map.path.starts_with('/') && !map.path.starts_with("/memfd:"))
    {
        let Ok(file) = File::open(path) else { continue };
        let is_it = file.metadata().is_ok_and(|metadata| metadata.ino() == map.inode);
        if is_it && let Ok(snapshot) = Snapshot::read(&file) {
            return Some(Source { snapshot, running: Some(pid), origin: map.path.to_owned() });
        }
    }
    let memory = ProcessMemory::open(pid, map.start, map.end).ok()?;
    let snapshot = Snapshot::read(&memory).ok()?;
    Some(Source { snapshot, running: Some(pid), origin: format!("memory of process {pid}") })
}

/// Opens the profile of the process with this name: the one that runs, else the one that died last.
fn open_name(name: &str) -> Result<Source, Failure> {
    let is_named =
        |header: &Header| [name_of(header), base_name(&header.exe), &header.comm].contains(&name);
    let mut running: Vec<u32> = all()
        .into_iter()
        .filter(|found| is_named(&found.snapshot.header))
        .filter_map(|found| found.running)
        .collect();
    running.sort_unstable();
    match running.as_slice() {
        [] => newest(is_named).ok_or_else(|| {
            Failure::not_found(format!(
                "name:{name}: no profiled process has that name. \"ramson list\" shows the profiles there are"
            ))
        }),
        [pid] => open_pid(*pid),
        pids => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            Err(Failure::usage(format!(
                "name:{name}: {} processes have that name ({}). Pass one of these process IDs",
                pids.len(),
                pids.join(", ")
            )))
        }
    }
}

fn newest(is_wanted: impl Fn(&Header) -> bool) -> Option<Source> {
    all()
        .into_iter()
        .filter(|found| is_wanted(&found.snapshot.header))
        .max_by_key(|found| found.snapshot.header.start_realtime_ns)
}

/// Every profile that can be found: files in the usual directories, and what this user's processes have mapped elsewhere.
pub fn all() -> Vec<Source> {
    let files = places::profile_directories()
        .into_iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ramson"));
    let mut found: Vec<Source> = files.filter_map(|path| open_file(&path).ok()).collect();
    let known: Vec<u32> = found.iter().filter_map(|source| source.running).collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if known.contains(&pid) {
            continue;
        }
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
        if maps.contains("/libramson.so") {
            // A forked child still has its parent's profile mapped; that one names the parent.
            let own = shared_maps(&maps).find_map(|map| {
                open_map(pid, &map).filter(|source| source.snapshot.header.pid == pid)
            });
            found.extend(own);
        }
    }
    found.sort_by_key(|source| source.snapshot.header.start_realtime_ns);
    found
}
