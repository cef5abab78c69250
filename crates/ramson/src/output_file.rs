//! Files that commands write: whole or not at all.

use ramson_paths::Directory;
use ramson_source::Failure;
use ramson_source::places::open_directory_of;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

/// Refuses to replace what is there without `--force`.
pub fn check_free(path: &Path, force: bool) -> Result<(), Failure> {
    if force || path.symlink_metadata().is_err() {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::failed(format!(
        "{shown}: exists. Choose another file, or replace it with --force"
    )))
}

/// Writes a whole file or none: what is there stays until the new one is complete. `-` is standard output.
pub fn write_file(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    if path == Path::new("-") {
        let mut out = BufWriter::new(io::stdout().lock());
        return Ok(write(&mut out).and_then(|()| out.flush())?);
    }
    check_free(path, force)?;
    replace(path, None, write).map_err(|error| cannot_write(path, &error))
}

/// Nothing binary goes to a terminal, whose state it would change.
pub fn refuse_terminal(path: &Path, what: &str) -> Result<(), Failure> {
    match path == Path::new("-") && io::stdout().is_terminal() {
        true => Err(Failure::usage(format!("{what} is binary: use -o FILE or a pipe"))),
        false => Ok(()),
    }
}

pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    Failure::failed(format!("{shown}: cannot be written: {error}. Choose another place"))
}

/// The same without asking.
pub fn replace(
    path: &Path,
    model: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let (directory, name) = open_directory_of(path)?;
    replace_in(&directory, name, model, write)
}

/// The same in a directory. What is written is for its owner only: that of the `model`, if there is one.
pub fn replace_in(
    directory: &Directory,
    name: &OsStr,
    model: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut partial = name.to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let file = directory.create_file(&partial)?;
    let written = write_to(file, model, write).and_then(|()| Ok(directory.rename(&partial, name)?));
    if written.is_err() {
        // Nothing to lose.
        let _ = directory.remove(&partial);
    }
    written
}

fn write_to(
    file: File,
    model: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(owner) = model {
        // Only root can give a file away, and only root has to.
        let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}
