//! `ramson export`: a profile in another tool's format.

use crate::assemble::assemble;
use crate::cli::{ExportOptions, Format};
use crate::failure::Failure;
use crate::source;
use ramson_encode::{collapsed, json, pprof};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

pub fn export(options: &ExportOptions) -> Result<(), Failure> {
    let source = source::open(&options.source.source)?;
    let named = assemble(&source, &options.source.debug_path)?;
    for defect in &source.snapshot.defects {
        eprintln!("ramson: {}: not whole: {defect}", source.origin);
    }
    let write = |out: &mut dyn Write| match options.format {
        Format::Pprof => {
            let settings = pprof::Options { default_sample_type: options.sample_index };
            pprof::write(&named.profile, out, &settings)
        }
        Format::Collapsed => collapsed::write(&named.profile, out, options.sample_index),
        Format::Json => json::write(&named.profile, out),
    };
    match &options.output {
        Some(path) => write_file(path, options.force, write),
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            write(&mut out)?;
            Ok(out.flush()?)
        }
    }
}

/// Writes a whole file or none: what is there stays until the new one is complete.
fn write_file(
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
