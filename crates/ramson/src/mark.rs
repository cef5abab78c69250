//! `ramson mark`: keeps a profile as it is now under a name, and finds it again. A mark is a snapshot as a profile file in a
//! directory of whoever made it, so every command that takes a file takes it. A history of the process gets it, too.

use crate::cli::SourceOptions;
use crate::failure::Failure;
use crate::own;
use crate::record;
use crate::snap;
use crate::source::{self, Source};
use crate::text;
use clap::Args;
use ramson_reader::Header;
use rustix::process::getuid;
use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAX_NAME_BYTES: usize = 64;

#[derive(Args)]
#[command(after_help = "\
Prints the file that it made; it can be removed at any time, and ramson does not do that by itself. \"leaks --since\" and
\"leaks --baseline\" find it by its name, the other commands by its path. If \"ramson record\" has kept a history of the process, the
moment is in it, too: SRC@mark:NAME.

Examples:
  ramson mark name:redis-server deploy; sleep 3600; ramson leaks name:redis-server --since deploy
  ramson diff $(ramson mark 4711 before) 4711")]
pub struct MarkOptions {
    #[command(flatten)]
    pub source: SourceOptions,
    /// What to call this moment: letters, digits, dots, dashes and underscores
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Move a mark that exists
    #[arg(long)]
    pub force: bool,
}

pub fn mark(options: &MarkOptions) -> Result<(), Failure> {
    let source = own::open(&options.source.source)?;
    let directory = make_directory()?;
    let path = directory.join(file_name(&source.snapshot.header, &options.name));
    if !options.force && path.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!(
            "mark {}: exists for this process. Choose another name, or move it with --force",
            options.name
        )));
    }
    if source.past.is_some() {
        return Err(Failure::usage(format!(
            "{}: a mark is of now. \"ramson snap {}\" keeps another moment as a file",
            options.source.source, options.source.source
        )));
    }
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let written = write(&partial, &snap::bytes(&source)).and_then(|()| fs::rename(&partial, &path));
    if let Err(error) = written {
        // Nothing to lose: it may not even be there.
        let _ = fs::remove_file(&partial);
        return Err(Failure::failed(format!(
            "{}: cannot be written: {error}. Make space, or set RAMSON_DIR to another directory",
            path.display()
        )));
    }
    if let Err(failure) = record::mark(&source, &options.name) {
        text::remark(format_args!("{failure}. The mark is in {} only", path.display()));
    }
    text::print(&format!("{}\n", path.display()))
}

/// A mark of this source's process by its name, else whatever profile `wanted` names.
pub fn open(wanted: &str, of: &Source) -> Result<Source, Failure> {
    if parse_name(wanted).is_ok() {
        let path = directory().join(file_name(&of.snapshot.header, wanted));
        if path.exists() {
            return source::open_file(&path);
        }
    }
    own::open(wanted).map_err(|failure| match failure {
        Failure::Message(5, _) => Failure::not_found(format!(
            "{wanted}: neither a mark of process {} nor a profile. \"ramson mark {} {wanted}\" makes a mark, of now",
            of.snapshot.header.pid, of.snapshot.header.pid
        )),
        other => other,
    })
}

/// The time tells processes with one ID apart.
fn file_name(header: &Header, name: &str) -> String {
    format!("{}-{}-{name}.ramson", header.pid, header.start_realtime_ns)
}

fn directory() -> PathBuf {
    let own = || PathBuf::from(format!("/var/tmp/ramson-{}", getuid().as_raw()));
    env::var_os("RAMSON_DIR").map_or_else(own, PathBuf::from).join("marks")
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
        "{shown}: belongs to somebody else. Set RAMSON_DIR to another directory"
    )))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

fn parse_name(text: &str) -> Result<String, String> {
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
