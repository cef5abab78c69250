//! Files that commands write: whole or not at all.

use ramson_source::Failure;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

/// Writes a whole file or none: what is there stays until the new one is complete.
pub fn write_file(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let shown = path.display();
    if !force && path.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!(
            "{shown}: exists. Choose another file, or replace it with --force"
        )));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = File::create_new(&partial).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&partial, path)
    });
    written.map_err(|error| {
        if error.kind() != ErrorKind::AlreadyExists {
            // Nothing to lose: it may not even be there.
            let _ = fs::remove_file(&partial);
        }
        Failure::failed(format!("{shown}: cannot be written: {error}. Choose another place"))
    })
}
