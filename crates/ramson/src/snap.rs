//! `ramson snap`: one moment of a process as a profile file of its own, which nobody writes any more.

use crate::cli::SourceOptions;
use crate::export::write_file;
use crate::failure::Failure;
use crate::history;
use crate::own;
use crate::source::Source;
use crate::text;
use clap::Args;
use ramson_profile::format::format_local_time;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Every command reads the file that it makes, on any machine with the same binaries. Prints its name.

Examples:
  ramson snap name:redis-server
  ramson snap 4711@-1h -o before.ramson")]
pub struct SnapOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// Write here instead of to NAME-PID-TIME.ramson in this directory
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

pub fn snap(options: &SnapOptions) -> Result<(), Failure> {
    let source = own::open(&options.source.source)?;
    if source.past.as_ref().is_some_and(|past| past.from_ns.is_some()) {
        return Err(Failure::usage(format!(
            "{}: a profile file holds one moment, not a range. Pass its end alone, or export the range",
            options.source.source
        )));
    }
    let path = options.output.clone().unwrap_or_else(|| file_name(&source).into());
    write_file(&path, options.force, |out| out.write_all(&bytes(&source)))?;
    text::print(&format!("{}\n", path.display()))
}

/// The profile file of a source, with the names that it carries.
pub fn bytes(source: &Source) -> Vec<u8> {
    let mut bytes = source.snapshot.to_bytes();
    bytes.extend(source.names.iter().flat_map(|names| names.to_block()));
    bytes
}

fn file_name(source: &Source) -> String {
    let time_ns = source.past.as_ref().map_or_else(history::now_ns, |past| past.time_ns);
    let time = format_local_time(time_ns).replace([':', '-'], "");
    format!("{}-{}-{time}.ramson", source.name().replace('/', "_"), source.pid())
}
