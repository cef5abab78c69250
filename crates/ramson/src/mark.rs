//! `ramson mark`: keeps a profile as it is now under a name, and finds it again. A mark is a copy of the profile file in a
//! directory of whoever made it, so every command that takes a file takes it.

use crate::cli::SourceOptions;
use crate::failure::Failure;
use crate::own;
use crate::shared;
use crate::source::{self, Source};
use crate::text;
use clap::Args;
use ramson_format::{self as format, PAGE_BYTES, RegionKind};
use ramson_reader::{Header, ReadAt};
use rustix::process::getuid;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAX_NAME_BYTES: usize = 64;
/// Copied at once. Pages of zeroes stay holes.
const CHUNK_BYTES: u64 = 1 << 20;
/// Live samples and recent frees first, as every reader does: none of them may name a stack that the copy does not have.
const ORDER: [RegionKind; 7] = [
    RegionKind::LiveKeys,
    RegionKind::LiveSamples,
    RegionKind::RecentFrees,
    RegionKind::Stacks,
    RegionKind::Frames,
    RegionKind::Mappings,
    RegionKind::Strings,
];

#[derive(Args)]
#[command(after_help = "\
Prints the file that it made; it can be removed at any time, and ramson does not do that by itself. \"leaks --since\" and
\"leaks --baseline\" find it by its name, the other commands by its path.

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
    let file = open_profile(&source)?;
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let copied = copy(&file, &partial).and_then(|()| fs::rename(&partial, &path));
    if let Err(error) = copied {
        // Nothing to lose: it may not even be there.
        let _ = fs::remove_file(&partial);
        return Err(Failure::failed(format!(
            "{}: cannot be written: {error}. Make space, or set RAMSON_DIR to another directory",
            path.display()
        )));
    }
    text::print(format!("{}\n", path.display()).as_bytes())
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

/// The file behind a source, as seen from the process where that runs elsewhere.
fn open_profile(source: &Source) -> Result<File, Failure> {
    let inside = source.running.map(|pid| format!("/proc/{pid}/root{}", source.origin));
    let is_it = |file: &File| {
        let read = ramson_reader::Snapshot::read(file);
        read.is_ok_and(|snapshot| shared::is_same_process(&snapshot, &source.snapshot))
    };
    let paths = [Some(source.origin.clone()), inside];
    paths.into_iter().flatten().filter_map(|path| File::open(path).ok()).find(is_it).ok_or_else(|| {
        Failure::failed(format!(
            "{}: has no file that can be copied. Give the process a directory for its profile (RAMSON_DIR)",
            source.origin
        ))
    })
}

fn copy(from: &File, to: &Path) -> io::Result<()> {
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let length = ReadAt::length(from)?.min(format::FILE_BYTES_RANGE.1);
    out.set_len(length)?;
    for kind in ORDER {
        let (offset, bytes) = committed(from, kind)?;
        copy_range(from, &out, offset, bytes.min(length.saturating_sub(offset)))?;
    }
    copy_range(from, &out, 0, PAGE_BYTES.min(length))
}

/// Where a region lies, and how much of it is in use.
fn committed(from: &File, kind: RegionKind) -> io::Result<(u64, u64)> {
    let row = kind.row();
    let mut bytes = [0; 24];
    ReadAt::read_at(from, row as u64, &mut bytes)?;
    let word =
        |at: usize| bytes[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Ok((word(0), word(16).saturating_mul(kind.entry_bytes())))
}

fn copy_range(from: &File, to: &File, start: u64, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    let mut done = 0;
    while done < length {
        let room = (length - done).min(CHUNK_BYTES) as usize;
        let count = ReadAt::read_at(from, start + done, &mut buffer[..room])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        for (index, page) in buffer[..count].chunks(PAGE_BYTES as usize).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                to.write_all_at(page, start + done + index as u64 * PAGE_BYTES)?;
            }
        }
        done += count as u64;
    }
    Ok(())
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
