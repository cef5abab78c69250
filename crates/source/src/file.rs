//! Files and mappings that hold a profile, and what is read from them.

use crate::failure::Failure;
use crate::foreign::{self, Foreign};
use crate::maps::{ProfileMap, bytes_of_map, has_mapped};
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
    match is_own {
        true => open_file(path).map(Opened::Recording),
        false => {
            foreign::open_file(&path.display().to_string(), file, inuse_at).map(Opened::Foreign)
        }
    }
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
        return foreign::open(origin, head.chain(stream), inuse_at).map(Opened::Foreign);
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
    let mut recording = read_file(path, &file)?;
    if recording.running.is_none() {
        recording.running = namespaces::running_with(&recording.snapshot.header, &file);
        recording.clip_extents();
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
    let mut recording = Recording { snapshot, running, origin: shown, names, past: None };
    recording.clip_extents();
    Ok(recording)
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

/// The profile that a running process has mapped here, if this mapping is one.
pub fn open_map(pid: u32, map: &ProfileMap) -> Option<Recording> {
    bytes_of_map(pid, map).find_map(|(bytes, origin)| {
        let snapshot = Snapshot::read(&*bytes).ok()?;
        let running = Some(pid);
        let mut recording = Recording { snapshot, running, origin, names: None, past: None };
        recording.clip_extents();
        Some(recording)
    })
}
