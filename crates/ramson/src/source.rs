//! SRC: from what the user typed to a snapshot, and whether its process still runs; or to a foreign profile.

mod every;
mod follow;
mod namespaces;

use crate::failure::Failure;
use crate::foreign::{self, Foreign};
use crate::history::{self, Past};
use crate::http;
use crate::mapped;
use crate::run::program;
use ramson_format::{FILE_BYTES_RANGE, MAGIC};
use ramson_import::Moment;
use ramson_reader::{Header, ProcessMemory, ReadAt, ReadError, Snapshot};
use ramson_symbols::CarriedNames;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use every::{all, matching};
pub use follow::{is_own, open_to_write, reader_of, writable_file};

/// A profile that was read.
pub struct Source {
    pub snapshot: Snapshot,
    /// The process, if it still runs and still writes this profile.
    pub running: Option<u32>,
    /// File, or `memory of process PID`.
    pub origin: String,
    /// Names that `ramson symbolize` has put into the file.
    pub names: Option<Arc<CarriedNames>>,
    /// Which moment it shows, where it comes from a history; its process is not looked at then.
    pub past: Option<Past>,
}

impl Source {
    /// The program's name as it was called (a link may have other names), else of the executable or the first thread.
    pub fn name(&self) -> &str {
        name_of(&self.snapshot.header)
    }

    /// Leaves of the extents what the process has still mapped, if it runs.
    fn clip_extents(&mut self) {
        if let Some(pid) = self.running {
            mapped::clip(&mut self.snapshot, pid);
        }
    }

    /// Its process: as it is called here while it runs, as it called itself afterwards.
    pub fn pid(&self) -> u32 {
        self.running.unwrap_or(self.snapshot.header.pid)
    }
}

pub fn name_of(header: &Header) -> &str {
    let called = header.command.first().map_or("", |path| base_name(path));
    [called, base_name(&header.exe)]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(&header.comm)
}

pub fn base_name(path: &str) -> &str {
    path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default()
}

/// What a SRC turned out to be.
pub enum Opened {
    /// A profile that libramson wrote.
    Own(Source),
    /// A profile of another tool.
    Foreign(Foreign),
}

/// Opens what the user named.
pub fn open(source: &str) -> Result<Opened, Failure> {
    if let Some(past) = history::open(source)? {
        return Ok(Opened::Own(past));
    }
    if let Some(name) = source.strip_prefix("name:") {
        return open_name(name).map(Opened::Own);
    }
    if source == "-" {
        return open_stream("standard input", io::stdin().lock(), Moment::End);
    }
    if http::is_address(source) {
        return http::open(source);
    }
    let is_number = !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && !Path::new(source).exists() {
        let pid =
            source.parse().map_err(|_| Failure::usage(format!("{source}: not a process ID")))?;
        return open_pid(pid).map(Opened::Own);
    }
    let path = Path::new(source);
    match source.strip_suffix("@peak") {
        Some(recording) if !path.exists() => open_any_file(Path::new(recording), Moment::Peak),
        _ => open_any_file(path, Moment::End),
    }
}

/// Opens a file of any format.
pub fn open_any_file(path: &Path, moment: Moment) -> Result<Opened, Failure> {
    let file = open_to_read(path)?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return open_stream(&path.display().to_string(), file, moment);
    }
    let mut magic = [0; MAGIC.len()];
    // A profile of ours that was never begun is all zeroes.
    let is_own = match rustix::io::pread(&file, &mut magic, 0) {
        Ok(0) | Err(_) => true,
        Ok(bytes) => magic == [0; MAGIC.len()] || MAGIC.starts_with(&magic[..bytes]),
    };
    match is_own {
        true => open_file(path).map(Opened::Own),
        false => foreign::open_file(&path.display().to_string(), file, moment).map(Opened::Foreign),
    }
}

/// Opens what comes through a pipe: a profile of another tool, or a whole one of ours.
pub fn open_stream(origin: &str, mut stream: impl Read, moment: Moment) -> Result<Opened, Failure> {
    let mut head = Vec::new();
    let unreadable_stream = |error| unreadable(origin, &ReadError::Io(error));
    (&mut stream).take(MAGIC.len() as u64).read_to_end(&mut head).map_err(unreadable_stream)?;
    if head != MAGIC {
        return foreign::open(origin, head.chain(stream), moment).map(Opened::Foreign);
    }
    let (_, most_bytes) = FILE_BYTES_RANGE;
    stream.take(most_bytes).read_to_end(&mut head).map_err(unreadable_stream)?;
    let snapshot = Snapshot::read(head.as_slice()).map_err(|error| unreadable(origin, &error))?;
    let names = CarriedNames::in_bytes(&head).map(Arc::new);
    Ok(Opened::Own(Source {
        snapshot,
        running: None,
        origin: origin.to_owned(),
        names,
        past: None,
    }))
}

/// Opens a profile file of ours.
pub fn open_file(path: &Path) -> Result<Source, Failure> {
    let file = open_to_read(path)?;
    let mut source = read_file(path, &file)?;
    if source.running.is_none() {
        source.running = namespaces::running_with(&source.snapshot.header, &file);
        source.clip_extents();
    }
    Ok(source)
}

fn open_to_read(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::not_found(format!(
            "{shown}: no such file. Pass a process ID, name:NAME, a file, an http address or -; \"ramson list\" shows what there is"
        )),
        ErrorKind::PermissionDenied => {
            Failure::failed(format!("{shown}: permission denied. Run ramson as the file's owner or as root"))
        }
        _ => Failure::failed(format!("{shown}: {error}")),
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::failed(format!("{shown}: a directory. Pass one of the files in it")));
    }
    Ok(file)
}

/// A file that nobody named: what lies there may be a FIFO, to open which waits for a writer.
fn open_found(path: impl AsRef<Path>) -> Option<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
}

/// `open_file` without looking for its process in other PID namespaces.
fn read_file(path: &Path, file: &File) -> Result<Source, Failure> {
    let shown = path.display().to_string();
    let snapshot = Snapshot::read(file).map_err(|error| unreadable(&shown, &error))?;
    let running = Some(snapshot.header.pid).filter(|&pid| has_mapped(pid, file));
    let names = CarriedNames::in_file(file).map(Arc::new);
    let mut source = Source { snapshot, running, origin: shown, names, past: None };
    source.clip_extents();
    Ok(source)
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

/// Whether a process runs and still has `file` mapped: a process ID may be in use again, and exec keeps it.
fn has_mapped(pid: u32, file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    profile_maps(&maps).any(|map| map.inode == metadata.ino() && map.is_on(metadata.dev()))
}

/// A mapping that may be a profile, as a line of /proc/PID/maps tells: a file that is shared, or private memory.
struct ProfileMap<'a> {
    start: u64,
    end: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

impl ProfileMap<'_> {
    fn is_on(&self, device: u64) -> bool {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // Some file systems (overlayfs, btrfs) give maps another device than stat; the inode then has to do.
        self.device == (major, minor) || self.device.0 == 0 || major == 0
    }
}

fn profile_maps(maps: &str) -> impl Iterator<Item = ProfileMap<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?;
        if fields.next()? != "00000000" {
            return None;
        }
        let (major, minor) = fields.next()?.split_once(':')?;
        let map = ProfileMap {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode: fields.next()?.parse().ok()?,
            path: fields.next().unwrap_or_default().trim_start(),
        };
        let is_large = map.end.saturating_sub(map.start) >= FILE_BYTES_RANGE.0;
        let is_private = access == "rw-p" && map.inode == 0 && map.path.is_empty() && is_large;
        (access == "rw-s" || is_private).then_some(map)
    })
}

/// Opens the profile of a process, running or dead.
fn open_pid(pid: u32) -> Result<Source, Failure> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if !process.exists() {
        let is_its = |found: &Source| found.running.is_none() && found.snapshot.header.pid == pid;
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
    let mut sources: Vec<Source> =
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

/// The profile that a running process has mapped here, if this mapping is one.
fn open_map(pid: u32, map: &ProfileMap) -> Option<Source> {
    bytes_of_map(pid, map).find_map(|(bytes, origin)| {
        let snapshot = Snapshot::read(&*bytes).ok()?;
        let mut source = Source { snapshot, running: Some(pid), origin, names: None, past: None };
        source.clip_extents();
        Some(source)
    })
}

/// What may be read as that profile, and where it is.
fn bytes_of_map(
    pid: u32,
    map: &ProfileMap,
) -> impl Iterator<Item = (Box<dyn ReadAt>, String)> + use<> {
    let is_file = map.path.starts_with('/') && !map.path.starts_with("/memfd:");
    let (path, inode, range) = (map.path.to_owned(), map.inode, map.start..map.end);
    let candidates = [format!("/proc/{pid}/root{path}"), path.clone()];
    let files = candidates.into_iter().filter(move |_| is_file).filter_map(move |candidate| {
        let file = open_found(candidate)?;
        let is_it = file.metadata().is_ok_and(|metadata| metadata.ino() == inode);
        is_it.then(|| (Box::new(file) as Box<dyn ReadAt>, path.clone()))
    });
    let memory = std::iter::once_with(move || {
        let memory = ProcessMemory::open(pid, range.start, range.end).ok()?;
        Some((Box::new(memory) as Box<dyn ReadAt>, format!("memory of process {pid}")))
    });
    files.chain(memory.flatten())
}

impl Source {
    /// The bytes of its profile, to be read again; `None` where they are gone, or came through a pipe.
    pub fn bytes(&self) -> Option<Box<dyn ReadAt>> {
        let Some(pid) = self.running else {
            return Some(Box::new(open_found(&self.origin)?));
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let is_it = |bytes: &dyn ReadAt| {
            let header = Snapshot::read(bytes).map(|snapshot| snapshot.header);
            header.is_ok_and(|header| {
                header.start_monotonic_ns == self.snapshot.header.start_monotonic_ns
                    && header.pid == self.snapshot.header.pid
            })
        };
        profile_maps(&maps)
            .flat_map(|map| bytes_of_map(pid, &map))
            .find_map(|(bytes, _)| is_it(&*bytes).then_some(bytes))
    }

    /// Whether its process still has it mapped, also where its file was removed: exec keeps the process ID. `file` is what was opened
    /// under its name, which may be gone, or another file's.
    pub fn is_still_mapped(&self, file: Option<&File>) -> bool {
        let Some(pid) = self.running else { return false };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let is_it = |map: ProfileMap| map.path.trim_end_matches(" (deleted)") == self.origin;
        self.origin.starts_with("memory of ")
            || profile_maps(&maps).any(is_it)
            || file.is_some_and(|file| has_mapped(pid, file))
    }
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

fn newest(is_wanted: impl Fn(&Source) -> bool) -> Option<Source> {
    all().into_iter().filter(is_wanted).max_by_key(|found| found.snapshot.header.start_realtime_ns)
}
