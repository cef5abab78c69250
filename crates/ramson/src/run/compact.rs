//! Rewrites the file of a dead process without the room that it did not use, for copying and attaching to tickets.

use ramson_format::{Header, PAGE_BYTES, REGION_KINDS, Region};
use std::fs::{self, File};
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Replaces `path` by a file with the same records whose regions follow each other. Only for files that nobody writes any more.
pub fn compact(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let mut header = vec![0; PAGE_BYTES as usize];
    file.read_exact_at(&mut header, 0)?;
    let mut body = Vec::new();
    for kind in REGION_KINDS {
        let row = offset_of!(Header, regions) + kind as usize * size_of::<Region>();
        let word =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
        let (offset, committed) = (word(row), word(row + offset_of!(Region, committed)));
        let present = file.metadata()?.len().saturating_sub(offset);
        let bytes = committed.saturating_mul(kind.entry_bytes());
        if bytes > present {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the profile is cut"));
        }
        let new_offset = PAGE_BYTES + body.len() as u64;
        let start = body.len();
        body.resize((start as u64 + bytes).next_multiple_of(PAGE_BYTES) as usize, 0);
        file.read_exact_at(&mut body[start..start + bytes as usize], offset)?;
        header[row..row + 8].copy_from_slice(&new_offset.to_le_bytes());
        let capacity = row + offset_of!(Region, capacity);
        header[capacity..capacity + 8].copy_from_slice(&committed.to_le_bytes());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let written = File::options().write(true).create_new(true).mode(0o600).open(&partial).and_then(
        |mut out| {
            out.write_all(&header)?;
            out.write_all(&body)?;
            fs::rename(&partial, path)
        },
    );
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}
