//! Files that commands write: whole or not at all.

use ramson_source::Failure;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
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

pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    Failure::failed(format!("{shown}: cannot be written: {error}. Choose another place"))
}

/// The same without asking. A profile is for the owner of its `model` only.
pub fn replace(
    path: &Path,
    model: Option<&Metadata>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let mode = if model.is_some() { 0o600 } else { 0o666 };
    let made = File::options().write(true).create_new(true).mode(mode).open(&partial);
    let written = made.and_then(|file| {
        if let Some(owner) = model {
            // Only root can give a file away, and only root has to.
            let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&partial, path)
    });
    if written.as_ref().is_err_and(|error| error.kind() != ErrorKind::AlreadyExists) {
        // Nothing to lose: it may not even be there.
        let _ = fs::remove_file(&partial);
    }
    written
}
