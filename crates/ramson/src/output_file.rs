//! Files that commands write: whole or not at all. Devices and FIFOs are written to, never replaced.

use ramson_paths::Directory;
use ramson_source::Failure;
use ramson_source::places::open_directory_of;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, fchown};
use std::path::Path;

/// Kind of file at a path that is to be written.
#[derive(Debug, PartialEq, Eq)]
enum There {
    /// Nothing, or something that a file may replace.
    File,
    /// A character device, a FIFO, or a link to one or to an open file (/dev/stdout): it is written to.
    Stream,
    /// It can be neither written to nor replaced.
    Other(&'static str),
}

fn there(path: &Path) -> There {
    let Ok(own) = path.symlink_metadata() else { return There::File };
    // Another user may have put it there to get what root writes, or to have root write to a disk.
    let is_trusted = own.uid() == 0 || own.uid() == geteuid().as_raw();
    if !own.is_symlink() {
        return kind(own.file_type(), is_trusted);
    }
    match path.metadata() {
        _ if !is_trusted => There::File,
        Ok(facts) if !facts.is_file() && !facts.is_dir() => kind(facts.file_type(), true),
        _ if path.read_link().is_ok_and(|target| target.starts_with("/proc")) => There::Stream,
        _ => There::File,
    }
}

fn kind(of: FileType, is_trusted: bool) -> There {
    if of.is_block_device() {
        There::Other("a block device")
    } else if of.is_socket() {
        There::Other("a socket")
    } else if !of.is_char_device() && !of.is_fifo() {
        There::File
    } else if is_trusted {
        There::Stream
    } else {
        There::Other("a device or FIFO of another user")
    }
}

fn not_replaced(path: &Path, what: &str) -> Failure {
    let shown = path.display();
    Failure::failed(format!("{shown}: {what}, which is never replaced. Choose another file"))
}

/// Refuses to replace what is there without `--force`, and what is no file in any case.
pub fn check_free(path: &Path, force: bool) -> Result<(), Failure> {
    match there(path) {
        There::Stream => return Ok(()),
        There::Other(what) => return Err(not_replaced(path, what)),
        There::File if force || path.symlink_metadata().is_err() => return Ok(()),
        There::File => {}
    }
    let shown = path.display();
    Err(Failure::failed(format!(
        "{shown}: exists. Choose another file, or replace it with --force"
    )))
}

/// The same for what has to be a file.
pub fn check_free_file(path: &Path, force: bool) -> Result<(), Failure> {
    match there(path) {
        There::Stream => Err(not_replaced(path, "a device, FIFO or open file")),
        _ => check_free(path, force),
    }
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
    if path == Path::new("-") && io::stdout().is_terminal() {
        return Err(Failure::usage(format!("{what} is binary: use -o FILE or a pipe")));
    }
    Ok(())
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
    match there(path) {
        There::File => {
            let (directory, name) = open_directory_of(path)?;
            replace_in(&directory, name, model, write)
        }
        There::Stream => {
            let file = OpenOptions::new().write(true).open(path)?;
            write_to(file, None, write)
        }
        There::Other(what) => Err(io::Error::other(format!("{what}, which is never replaced"))),
    }
}

/// The same in a directory. Only its owner may read the new file: that of the `model`, if there is one.
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
