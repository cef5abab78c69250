//! `ramson export`: a profile in another tool's format.

use crate::assemble::Detail;
use crate::cli::{ExportOptions, Format};
use crate::failure::Failure;
use crate::source;
use crate::text;
use ramson_encode::{collapsed, csv, firefox, heap_v2, html, json, pprof, speedscope, svg};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

pub fn export(options: &ExportOptions) -> Result<(), Failure> {
    let mut source = source::open(&options.source.source)?;
    let sample_type = source.sample_type(options.sample_index)?;
    let is_labelled = matches!(options.format, Format::Pprof) || options.filters.use_labels();
    let detail = if is_labelled { Detail::Labels } else { Detail::Stacks };
    let mut named = source.take_named(&options.source.names, detail, options.kind)?;
    options.filters.apply(&mut named.profile, sample_type)?;
    for defect in source.defects() {
        text::remark(format_args!("{}: not whole: {defect}", source.origin()));
    }
    if matches!(options.format, Format::HeapV2) && !heap_v2::has_addresses(&named.profile) {
        return Err(Failure::usage(format!(
            "{}: it has names without addresses, and heap_v2 has addresses only. Pass another --format",
            source.origin()
        )));
    }
    let write = |out: &mut dyn Write| match options.format {
        Format::Pprof => {
            let settings = pprof::Options { default_sample_type: sample_type };
            pprof::write(&named.profile, out, &settings)
        }
        Format::Collapsed => collapsed::write(&named.profile, out, sample_type),
        Format::Speedscope => speedscope::write(&named.profile, out, sample_type),
        Format::Firefox => firefox::write(&named.profile, out, sample_type),
        Format::Svg => svg::write(&named.profile, out, sample_type),
        Format::Html => html::write(&named.profile, out, sample_type),
        Format::Json => json::write(&named.profile, out),
        Format::Csv => csv::write(&named.profile, out),
        Format::HeapV2 => heap_v2::write(&named.profile, out),
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
