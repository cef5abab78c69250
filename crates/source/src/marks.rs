//! Marks: a moment of a process kept under a name, as a profile file in a directory of the user who made it.

use crate::failure::Failure;
use crate::file::open_file;
use crate::open::{open_recording, open_recordings};
use crate::places::own_profile_directory;
use crate::recording::Recording;
use ramson_reader::Header;
use rustix::process::getuid;
use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAX_NAME_BYTES: usize = 64;

/// Keeps the present moment of a process under a name. `force` moves a mark that exists.
pub fn keep(recording: &Recording, name: &str, force: bool) -> Result<PathBuf, Failure> {
    let path = make_directory()?.join(file_name(&recording.snapshot.header, name));
    if !force && path.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!(
            "mark {name}: exists for this process. Choose another name, or move it with --force"
        )));
    }
    if recording.past.is_some() {
        return Err(Failure::usage(format!(
            "{}: a mark is of now. \"ramson snap {}\" keeps another moment as a file",
            recording.origin, recording.origin
        )));
    }
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let written = write(&partial, &recording.to_bytes()).and_then(|()| fs::rename(&partial, &path));
    if let Err(error) = written {
        // Nothing to lose: it may not even exist.
        let _ = fs::remove_file(&partial);
        return Err(Failure::failed(format!(
            "{}: cannot be written: {error}. Make space, or set RAMSON_DIR to another directory",
            path.display()
        )));
    }
    Ok(path)
}

/// Of each of these processes its mark of this name; if none has one, whatever profiles `wanted` names, of one process one.
pub fn open_all(wanted: &str, of: &[&Recording]) -> Result<Vec<Recording>, Failure> {
    if parse_name(wanted).is_ok() {
        let paths = of.iter().map(|of| directory().join(file_name(&of.snapshot.header, wanted)));
        let there: Vec<PathBuf> = paths.filter(|path| path.exists()).collect();
        if !there.is_empty() {
            return there.iter().map(|path| open_file(path)).collect();
        }
    }
    let [one] = of else { return Ok(open_recordings(&[wanted])?.0) };
    let pid = one.snapshot.header.pid;
    open_recording(wanted).map(|recording| vec![recording]).map_err(|failure| match failure {
        Failure::Message(5, _) => Failure::not_found(format!(
            "{wanted}: neither a mark of process {pid} nor a profile. \"ramson mark {pid} {wanted}\" makes a mark, of now"
        )),
        other => other,
    })
}

/// The time tells processes with one ID apart.
fn file_name(header: &Header, name: &str) -> String {
    format!("{}-{}-{name}.ramson", header.pid, header.start_realtime_ns)
}

fn directory() -> PathBuf {
    own_profile_directory().join("marks")
}

/// Anybody may make directories in /var/tmp: one that is not ours is not used.
fn make_directory() -> Result<PathBuf, Failure> {
    let directory = directory();
    let shown = directory.display();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|error| {
        Failure::failed(format!(
            "{shown}: {error}. Set RAMSON_DIR to a directory that you can write"
        ))
    })?;
    let is_ours = |path: &Path| {
        path.symlink_metadata()
            .is_ok_and(|facts| facts.is_dir() && facts.uid() == getuid().as_raw())
    };
    let is_asked_for = env::var_os("RAMSON_DIR").is_some();
    if is_ours(&directory) && (is_asked_for || directory.parent().is_some_and(is_ours)) {
        return Ok(directory);
    }
    Err(Failure::failed(format!(
        "{shown}: belongs to another user. Set RAMSON_DIR to another directory"
    )))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
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
