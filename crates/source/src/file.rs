//! Files and mappings that hold a profile, and what is read from them.

use crate::failure::Failure;
use crate::foreign::{self, Foreign};
use crate::namespaces;
use crate::recording::Recording;
use ramson_format::{FILE_BYTES_RANGE, MAGIC};
use ramson_import::Moment;
use ramson_reader::{ProcessMemory, ReadAt, ReadError, Snapshot};
use ramson_symbols::CarriedNames;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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
        true => open_file(path).map(Opened::Recording),
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
    Ok(Opened::Recording(Recording {
        snapshot,
        running: None,
        origin: origin.to_owned(),
        names,
        past: None,
    }))
}

/// Opens a profile file of ours.
pub fn open_file(path: &Path) -> Result<Recording, Failure> {
    let file = open_to_read(path)?;
    let source = read_file(path, &file)?;
    let running =
        source.running.or_else(|| namespaces::running_with(&source.snapshot.header, &file));
    Ok(Recording { running, ..source })
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
pub fn open_found(path: impl AsRef<Path>) -> Option<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
}

/// `open_file` without looking for its process in other PID namespaces.
pub fn read_file(path: &Path, file: &File) -> Result<Recording, Failure> {
    let shown = path.display().to_string();
    let snapshot = Snapshot::read(file).map_err(|error| unreadable(&shown, &error))?;
    let running = Some(snapshot.header.pid).filter(|&pid| has_mapped(pid, file));
    let names = CarriedNames::in_file(file).map(Arc::new);
    Ok(Recording { snapshot, running, origin: shown, names, past: None })
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
pub fn has_mapped(pid: u32, file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    profile_maps(&maps).any(|map| map.inode == metadata.ino() && map.is_on(metadata.dev()))
}

/// A mapping that may be a profile, as a line of /proc/PID/maps tells: a file that is shared, or private memory.
pub struct ProfileMap<'a> {
    pub start: u64,
    pub end: u64,
    pub device: (u32, u32),
    pub inode: u64,
    pub path: &'a str,
}

impl ProfileMap<'_> {
    fn is_on(&self, device: u64) -> bool {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        // Some file systems (overlayfs, btrfs) give maps another device than stat; the inode then has to do.
        self.device == (major, minor) || self.device.0 == 0 || major == 0
    }
}

pub fn profile_maps(maps: &str) -> impl Iterator<Item = ProfileMap<'_>> {
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

/// The profile that a running process has mapped here, if this mapping is one.
pub fn open_map(pid: u32, map: &ProfileMap) -> Option<Recording> {
    bytes_of_map(pid, map).find_map(|(bytes, origin)| {
        let snapshot = Snapshot::read(&*bytes).ok()?;
        Some(Recording { snapshot, running: Some(pid), origin, names: None, past: None })
    })
}

/// What may be read as that profile, and where it is.
pub fn bytes_of_map(
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
