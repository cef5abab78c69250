//! Files and mappings that hold a profile, and what is read from them.

use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::maps::{Map, bytes_of_map, has_mapped, maps, open_found, profile_maps};
use crate::recording::{Recording, complete};
use ramson_format::{FILE_BYTES_RANGE, MAGIC, flags};
use ramson_import::InuseAt;
use ramson_process::{processes, text};
use ramson_reader::{Header, ReadAt, ReadError, Snapshot};
use ramson_symbols::CarriedNames;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// What a SRC turned out to be.
pub enum Opened {
    /// A profile that libramson wrote.
    Recording(Recording),
    /// A profile of another tool.
    Foreign(Foreign),
}

impl Opened {
    /// What was typed, or where it was found.
    pub fn origin(&self) -> &str {
        match self {
            Self::Recording(recording) => &recording.origin,
            Self::Foreign(foreign) => &foreign.origin,
        }
    }
}

/// Opens a file of any format.
pub fn open_any_file(path: &Path, inuse_at: InuseAt) -> Result<Opened, Failure> {
    let file = open_to_read(path)?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return open_stream(&path.display().to_string(), file, inuse_at);
    }
    let mut magic = [0; MAGIC.len()];
    // A profile of ours that was never begun is all zeroes.
    let is_own = match rustix::io::pread(&file, &mut magic, 0) {
        Ok(0) | Err(_) => true,
        Ok(bytes) => magic == [0; MAGIC.len()] || MAGIC.starts_with(&magic[..bytes]),
    };
    if is_own {
        return open_file(path).map(Opened::Recording);
    }
    let imported = ramson_import::import_file(file, inuse_at);
    Foreign::of(&path.display().to_string(), imported, inuse_at).map(Opened::Foreign)
}

/// Opens what comes through a pipe: a profile of another tool, or a whole one of ours.
pub fn open_stream(
    origin: &str,
    mut stream: impl Read,
    inuse_at: InuseAt,
) -> Result<Opened, Failure> {
    let mut head = Vec::new();
    let unreadable_stream = |error| unreadable(origin, &ReadError::Io(error));
    (&mut stream).take(MAGIC.len() as u64).read_to_end(&mut head).map_err(unreadable_stream)?;
    if head != MAGIC {
        let imported = ramson_import::import(head.chain(stream), inuse_at);
        return Foreign::of(origin, imported, inuse_at).map(Opened::Foreign);
    }
    let (_, most_bytes) = FILE_BYTES_RANGE;
    stream.take(most_bytes).read_to_end(&mut head).map_err(unreadable_stream)?;
    let snapshot = Snapshot::read(head.as_slice()).map_err(|error| unreadable(origin, &error))?;
    let names = CarriedNames::in_bytes(&head).map(Arc::new);
    let recording = Recording::of(snapshot, None, origin.to_owned());
    Ok(Opened::Recording(Recording { names, ..recording }))
}

/// Opens a profile file of ours.
pub fn open_file(path: &Path) -> Result<Recording, Failure> {
    let file = open_to_read(path)?;
    let mut recording = read_file(path, &file)?;
    if recording.running.is_none() {
        recording.running = running_with(&recording.snapshot.header, &file);
        recording.running.iter().for_each(|&pid| complete(&mut recording.snapshot, pid));
    }
    Ok(recording)
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

/// `open_file` without looking for its process in other PID namespaces.
pub fn read_file(path: &Path, file: &File) -> Result<Recording, Failure> {
    let shown = path.display().to_string();
    let snapshot = Snapshot::read(file).map_err(|error| unreadable(&shown, &error))?;
    let running = Some(snapshot.header.pid).filter(|&pid| has_mapped(pid, file));
    let names = CarriedNames::in_file(file).map(Arc::new);
    Ok(Recording { names, ..Recording::of(snapshot, running, shown) })
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

/// The profile of a running process, if it has one of its own: a forked child still has its parent's mapped, too.
pub fn open_member(pid: u32) -> Option<Recording> {
    open_mapped(pid).find(|recording| recording.has_pid_of(pid))
}

/// The recording of process `pid` that has this header, where it is now: a forked child moves it from its memory to a file.
pub fn find_again(pid: u32, header: &Header) -> Option<Recording> {
    open_member(pid).filter(|found| found.snapshot.header.identity() == header.identity())
}

/// The profiles that a running process has mapped.
fn open_mapped(pid: u32) -> impl Iterator<Item = Recording> {
    open_maps(pid, profile_maps(pid).ok().flatten().unwrap_or_default())
}

fn open_maps(pid: u32, maps: Vec<Map>) -> impl Iterator<Item = Recording> {
    maps.into_iter().filter_map(move |map| {
        bytes_of_map(pid, map).find_map(|(bytes, origin)| {
            let snapshot = Snapshot::read(&*bytes).ok()?;
            Some(Recording::of(snapshot, Some(pid), origin))
        })
    })
}

/// The profile of a process that has these mapped: its own, else the first.
pub fn open_own_or_first(pid: u32, maps: Vec<Map>) -> Option<Recording> {
    let mut first = None;
    for found in open_maps(pid, maps) {
        if found.has_pid_of(pid) {
            return Some(found);
        }
        first.get_or_insert(found);
    }
    first
}

/// The process, in a container, that has `file` mapped and is called `header.pid` in a namespace of its own.
fn running_with(header: &Header, file: &File) -> Option<u32> {
    processes::all()
        .into_iter()
        .find(|&pid| pid != header.pid && own_pid(pid) == Some(header.pid) && has_mapped(pid, file))
}

/// What a process of ours is called in its own, innermost namespace.
fn own_pid(pid: u32) -> Option<u32> {
    let status = text::read(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Before Linux 4.1 the line is missing.
    ids.map_or(Some(pid), |ids| ids.split_whitespace().last()?.parse().ok())
}

/// Opens a profile that is open for reading once more. libramson makes it read-only, so that it is
/// not truncated by mistake; its owner must allow himself to write, for a moment. Another ramson
/// may end that moment, so it is tried again.
pub fn open_to_write(profile: &File) -> io::Result<File> {
    const OWNER_WRITES: u32 = 0o200;
    const ATTEMPTS: usize = 5;
    let again = format!("/proc/self/fd/{}", profile.as_raw_fd());
    let open = || File::options().read(true).write(true).open(&again);
    let is_denied = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
    let mut opened = open();
    for _ in 0..ATTEMPTS {
        if !opened.as_ref().is_err_and(is_denied) {
            break;
        }
        let mode = profile.metadata()?.permissions().mode();
        profile.set_permissions(Permissions::from_mode(mode | OWNER_WRITES))?;
        opened = open();
        profile.set_permissions(Permissions::from_mode(mode & !OWNER_WRITES))?;
    }
    opened
}

impl Recording {
    fn has_pid_of(&self, pid: u32) -> bool {
        Some(self.snapshot.header.pid) == own_pid(pid)
    }

    /// Whether process `pid`, which has it mapped, records in it. A child that may ask for nothing goes on in its copy of what its parent had in
    /// memory, by its parent's number.
    pub fn is_of(&self, pid: u32) -> bool {
        self.has_pid_of(pid) || self.snapshot.header.flags & flags::PRIVATE != 0
    }

    /// The bytes of its profile, to be read again: its file, as seen from the process where that runs elsewhere, else the
    /// process's memory. `None` where they are gone, or came through a pipe.
    pub fn bytes(&self) -> Option<Box<dyn ReadAt>> {
        let identity = self.snapshot.header.identity();
        let is_it = |bytes: &dyn ReadAt| {
            Header::read(bytes).is_ok_and(|header| header.identity() == identity)
        };
        let file = open_found(&self.origin).map(|file| Box::new(file) as Box<dyn ReadAt>);
        let mapped = self.running.into_iter().flat_map(|pid| {
            let maps = maps(pid).into_iter().flatten().filter(Map::may_be_profile);
            maps.flat_map(move |map| bytes_of_map(pid, map)).map(|(bytes, _)| bytes)
        });
        file.into_iter().chain(mapped).find(|bytes| is_it(&**bytes))
    }

    /// Whether its process still has it mapped, also where its file was removed: exec keeps the process ID. `file` is what was opened
    /// under its name, which may be gone, or another file's.
    pub fn is_still_mapped(&self, file: Option<&File>) -> bool {
        let Some(pid) = self.running else { return false };
        let is_it = |map: &Map| {
            map.may_be_profile() && map.path.trim_end_matches(" (deleted)") == self.origin
        };
        self.origin.starts_with("memory of ") && find_again(pid, &self.snapshot.header).is_some()
            || maps(pid).into_iter().flatten().any(|map| is_it(&map))
            || file.is_some_and(|file| has_mapped(pid, file))
    }
}
