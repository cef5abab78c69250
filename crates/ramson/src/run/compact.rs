//! Rewrites the file of a dead process without the room that it did not use, for copying and attaching to tickets.

use crate::output_file::replace;
use ramson_format::{PAGE_BYTES, REGION_KINDS, Region};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Replaces `path` by a file with the same records whose regions follow each other, with a block
/// behind them, as of names. Only for files that are not written any more.
pub fn compact(path: &Path, block: &[u8]) -> io::Result<()> {
    let mut content = compacted(&File::open(path)?)?;
    content.extend_from_slice(block);
    replace(path, Some(&path.metadata()?), |out| out.write_all(&content))
}

/// The records of `file`, with the regions one after the other.
pub fn compacted(file: &File) -> io::Result<Vec<u8>> {
    let mut out = vec![0; PAGE_BYTES as usize];
    file.read_exact_at(&mut out, 0)?;
    for kind in REGION_KINDS {
        let row = kind.row();
        let word = |at: usize| u64::from_le_bytes(out[at..at + 8].try_into().unwrap_or_default());
        let (offset, committed) = (word(row), word(row + offset_of!(Region, committed)));
        let present = file.metadata()?.len().saturating_sub(offset);
        let bytes = committed.saturating_mul(kind.entry_bytes());
        if bytes > present {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the profile is cut"));
        }
        let start = out.len();
        out.resize((start as u64 + bytes).next_multiple_of(PAGE_BYTES) as usize, 0);
        file.read_exact_at(&mut out[start..start + bytes as usize], offset)?;
        out[row..row + 8].copy_from_slice(&(start as u64).to_le_bytes());
        let capacity = row + offset_of!(Region, capacity);
        out[capacity..capacity + 8].copy_from_slice(&committed.to_le_bytes());
    }
    Ok(out)
}
