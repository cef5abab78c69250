//! Rewrites the file of a dead process without the room that it did not use, for copying and attaching to tickets.

use crate::output_file::replace_in;
use ramson_format::{PAGE_BYTES, REGION_KINDS, Region};
use ramson_reader::{ReadAt, regions};
use ramson_source::places::open_directory_of;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Replaces `path` by a file with the same records whose regions follow each other, with a block
/// behind them, as of names. Only for files that are not written any more.
pub fn compact(path: &Path, block: &[u8]) -> io::Result<()> {
    let (directory, name) = open_directory_of(path)?;
    let profile = directory.open_file(name)?.file;
    let mut content = compacted(&profile)?;
    content.extend_from_slice(block);
    replace_in(&directory, name, Some(&profile.metadata()?), |out| out.write_all(&content))
}

/// The records of `file`, with the regions one after the other.
pub fn compacted(file: &File) -> io::Result<Vec<u8>> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let places = regions(file).map_err(|error| damaged(&error.to_string()))?;
    let length = file.length()?;
    let mut out = vec![0; PAGE_BYTES as usize];
    file.read_exact_at(&mut out, 0)?;
    for (kind, place) in REGION_KINDS.into_iter().zip(places) {
        let place = place.ok_or_else(|| damaged("the profile is damaged"))?;
        let (bytes, start) = (place.end - place.start, out.len());
        if place.end > length || start as u64 + bytes > file.most_bytes() {
            return Err(damaged("the profile is cut or too large"));
        }
        out.resize((start as u64 + bytes).next_multiple_of(PAGE_BYTES) as usize, 0);
        file.read_exact_at(&mut out[start..start + bytes as usize], place.start)?;
        let row = kind.row();
        out[row..row + 8].copy_from_slice(&(start as u64).to_le_bytes());
        let capacity = row + offset_of!(Region, capacity);
        let committed = bytes / kind.entry_bytes();
        out[capacity..capacity + 8].copy_from_slice(&committed.to_le_bytes());
    }
    Ok(out)
}
