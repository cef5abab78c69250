//! Files and mappings that hold a profile, and what is read from them.

use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::maps::{Map, bytes_of_map, clip_extents, has_mapped, maps};
use crate::namespaces;
use crate::recording::Recording;
use ramson_format::{FILE_BYTES_RANGE, MAGIC};
use ramson_import::InuseAt;
use ramson_reader::{ReadError, Snapshot};
use ramson_symbols::CarriedNames;
use std::fs::File;
use std::io::{ErrorKind, Read};
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
        recording.running = namespaces::running_with(&recording.snapshot.header, &file);
        recording.running.iter().for_each(|&pid| clip_extents(&mut recording.snapshot, pid));
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
    let own_pid = namespaces::own_pid(pid);
    open_mapped(pid).find(|recording| Some(recording.snapshot.header.pid) == own_pid)
}

/// The profiles that a running process has mapped.
pub fn open_mapped(pid: u32) -> impl Iterator<Item = Recording> {
    let maps = maps(pid).ok().filter(|maps| maps.iter().any(Map::is_library)).unwrap_or_default();
    maps.into_iter().filter(Map::may_be_profile).filter_map(move |map| {
        bytes_of_map(pid, map).find_map(|(bytes, origin)| {
            let snapshot = Snapshot::read(&*bytes).ok()?;
            Some(Recording::of(snapshot, Some(pid), origin))
        })
    })
}
