//! Marks: a moment of a process kept under a name, as a profile file in a directory of the user who made it.

use crate::failure::Failure;
use crate::file::{open_file, read_file};
use crate::places::{open_directory, own_profile_directory};
use crate::recording::Recording;
use crate::selector::Base;
use ramson_paths::Directory;
use ramson_reader::{Header, Snapshot};
use rustix::process::getuid;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Within the directory of profiles.
const MARKS: &str = "marks";
const MAX_NAME_BYTES: usize = 64;

/// Keeps the present moment of a process under a name. `force` moves a mark that exists.
pub fn keep(recording: &Recording, name: &str, force: bool) -> Result<PathBuf, Failure> {
    let directory = make_directory()?;
    let file = OsString::from(file_name(&recording.snapshot.header, name));
    if !force && directory.has(&file) {
        return Err(Failure::failed(format!(
            "mark {name}: exists for this process. Choose another name, or move it with --force"
        )));
    }
    if recording.past.is_some() {
        return Err(Failure::usage(format!(
            "{}: a mark keeps the present moment only. \"ramson mark {} -o FILE\" keeps another one as a file",
            recording.origin, recording.origin
        )));
    }
    let path = directory.path().join(&file);
    let partial = OsString::from(format!("{}.partial", std::process::id()));
    let written = write(&directory, &partial, &recording.to_bytes())
        .and_then(|()| Ok(directory.rename(&partial, &file)?));
    if let Err(error) = written {
        // Nothing to lose: it may not even exist.
        let _ = directory.remove(&partial);
        return Err(Failure::failed(format!(
            "{}: cannot be written: {error}. Make space, or set RAMSON_DIR to another directory",
            path.display()
        )));
    }
    Ok(path)
}

/// Opens the marks of these processes that are called `name`.
pub fn named(name: &str, of: &[&Recording]) -> Result<Vec<Recording>, Failure> {
    let names = of.iter().map(|of| OsString::from(file_name(&of.snapshot.header, name)));
    let directory = open_directory(&own_profile_directory());
    let Ok(marks) = directory.and_then(|directory| directory.directory(MARKS.as_ref())) else {
        return Ok(Vec::new());
    };
    names.filter(|name| marks.has(name)).map(|name| open(&marks, &name)).collect()
}

/// A mark that this user made.
pub struct Mark {
    /// Its name.
    pub name: String,
    /// The process that it is of.
    pub pid: u32,
    /// When that process began; nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Its profile.
    pub path: PathBuf,
}

/// All of them, by process and name; none where there is no directory of marks.
pub fn all() -> Vec<Mark> {
    let directory = open_directory(&own_profile_directory());
    let marks = directory.and_then(|directory| directory.directory(MARKS.as_ref()));
    let Ok(marks) = marks else { return Vec::new() };
    let of_name = |file: OsString| {
        let mut parts = file.to_str()?.strip_suffix(".ramson")?.splitn(3, '-');
        let pid = parts.next()?.parse().ok()?;
        let start_unix_ns = parts.next()?.parse().ok()?;
        let name = parse_name(parts.next()?).ok()?;
        Some(Mark { name, pid, start_unix_ns, path: marks.path().join(&file) })
    };
    let mut all: Vec<Mark> = marks.names().into_iter().flatten().filter_map(of_name).collect();
    all.sort_by(|a, b| (a.pid, a.start_unix_ns, &a.name).cmp(&(b.pid, b.start_unix_ns, &b.name)));
    all
}

/// The marks of this name of a process, or of all that are called so; of processes with one ID that of the latest.
pub fn of(base: &Base, name: &str) -> Vec<Recording> {
    let mut found: Vec<Mark> = all().into_iter().filter(|mark| mark.name == name).collect();
    if let Base::Process(pid) = base {
        found.retain(|mark| mark.pid == *pid);
        found.drain(..found.len().saturating_sub(1));
    }
    let opened = found.iter().filter_map(|mark| open_file(&mark.path).ok());
    let is_meant = |recording: &Recording| match base {
        Base::Process(_) => true,
        Base::Name(called) => recording.name() == called,
        _ => false,
    };
    opened.filter(is_meant).collect()
}

/// The latest mark of a process.
pub fn latest(header: &Header) -> Option<Snapshot> {
    let is_its =
        |mark: &Mark| (mark.pid, mark.start_unix_ns) == (header.pid, header.start_realtime_ns);
    let opened = all().into_iter().filter(is_its).filter_map(|mark| open_file(&mark.path).ok());
    opened.map(|recording| recording.snapshot).max_by_key(|it| it.header.last_monotonic_ns)
}

/// The time tells processes with one ID apart.
fn file_name(header: &Header, name: &str) -> String {
    format!("{}-{}-{name}.ramson", header.pid, header.start_realtime_ns)
}

fn open(marks: &Directory, name: &OsStr) -> Result<Recording, Failure> {
    let path = marks.path().join(name);
    let opened = marks.open_file(name).map_err(|refusal| {
        Failure::failed(format!("{}: {refusal}. Make the mark again with --force", path.display()))
    })?;
    read_file(&path, &opened.file)
}

/// Any user may make directories in /var/tmp: one that is not ours, or a link, is not used.
fn make_directory() -> Result<Directory, Failure> {
    let path = own_profile_directory();
    // It may exist; what counts is what is opened.
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    let made = open_directory(&path).and_then(|directory| directory.make_directory(MARKS.as_ref()));
    let shown = path.join(MARKS);
    let shown = shown.display();
    let marks = made.map_err(|refusal| {
        Failure::failed(format!(
            "{shown}: {refusal}. Set RAMSON_DIR to a directory that you can write"
        ))
    })?;
    if marks.owner() == getuid().as_raw() {
        return Ok(marks);
    }
    Err(Failure::failed(format!(
        "{shown}: belongs to another user. Set RAMSON_DIR to another directory"
    )))
}

fn write(directory: &Directory, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    directory.create_file(name)?.write_all(bytes)
}

/// A mark's name as the user typed it.
pub fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = (1..=MAX_NAME_BYTES).contains(&text.len())
        && text.bytes().all(is_plain)
        && !text.starts_with(['.', '-']);
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        format!(
            "not a name of at most {MAX_NAME_BYTES} letters, digits, dots, dashes and underscores"
        )
    })
}
