//! Sources of a profile's bytes, and which of them are present: another user decides how long a file or a mapping is, and of a hole
//! nothing needs to be read.

use crate::apart::Passed;
use ramson_apart::{Owner, for_owner, proc};
use ramson_format::{FILE_BYTES_RANGE, PAGE_BYTES};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::process::getuid;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// A snapshot takes as much memory for each byte that it is read from.
const MEMORY_PER_BYTE: u64 = 4;
/// Ranges up to this length are read whole: to ask which parts are present takes longer.
const READ_WHOLE_BYTES: u64 = 64 << 10;

/// As much may be read of what belongs to another user: by default twice what a file of the default length holds.
pub(crate) fn strangers_bytes() -> u64 {
    ramson_apart::bounds(false).memory_bytes / MEMORY_PER_BYTE
}

/// A file, a slice, another process's memory.
pub trait ReadAt {
    /// Bytes that can be read at most.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`, as far as there are bytes; returns how many.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// The first part of `range` that may hold anything but zeroes. `None`: there is none.
    fn next_present(&self, range: Range<u64>) -> Option<Range<u64>> {
        Some(range)
    }
    /// Bytes that are read for one snapshot at most.
    fn most_bytes(&self) -> u64 {
        FILE_BYTES_RANGE.1
    }
    /// Who reads it, if this process does not.
    fn apart(&self) -> Option<Passed<'_>> {
        None
    }
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        fill(buffer, |filled, rest| FileExt::read_at(self, rest, offset + filled))
    }

    fn next_present(&self, range: Range<u64>) -> Option<Range<u64>> {
        if range.end - range.start <= READ_WHOLE_BYTES {
            return Some(range);
        }
        let start = match seek(self, SeekFrom::Data(range.start)) {
            Ok(start) => start,
            // Nothing more before the end.
            Err(Errno::NXIO) => return None,
            Err(_) => return Some(range),
        };
        let end = seek(self, SeekFrom::Hole(start)).unwrap_or(range.end);
        let present = start..end.min(range.end);
        (present.start < present.end).then_some(present)
    }

    fn most_bytes(&self) -> u64 {
        self.metadata()
            .map_or_else(|_| strangers_bytes(), |facts| most_bytes_of(Owner::of_user(facts.uid())))
    }

    fn apart(&self) -> Option<Passed<'_>> {
        passed(self, Owner::of_user(self.metadata().ok()?.uid()))
    }
}

/// A file that a process has mapped, and what it was when it was opened: to ask anew might wait for a file system of another user's.
pub struct MappedBytes {
    /// Open.
    pub file: File,
    /// User ID.
    pub owner: Owner,
    /// Length.
    pub bytes: u64,
}

impl ReadAt for MappedBytes {
    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        ReadAt::read_at(&self.file, offset, buffer)
    }

    fn next_present(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.file.next_present(range)
    }

    fn most_bytes(&self) -> u64 {
        most_bytes_of(self.owner)
    }

    fn apart(&self) -> Option<Passed<'_>> {
        passed(&self.file, self.owner)
    }
}

/// As much is read of a file of that user.
fn most_bytes_of(owner: Owner) -> u64 {
    if owner.is_trusted() { FILE_BYTES_RANGE.1 } else { strangers_bytes() }
}

fn passed(file: &File, owner: Owner) -> Option<Passed<'_>> {
    Some(Passed::file(for_owner(owner)?, file, most_bytes_of(owner)))
}

impl ReadAt for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }
}

/// The memory of a running process (/proc/PID/mem), open.
pub struct ProcessFiles {
    memory: File,
    /// Tells which pages of private memory are present.
    pagemap: Option<File>,
}

impl ProcessFiles {
    /// Fails where ptrace access would.
    pub fn open(pid: u32) -> io::Result<Self> {
        let open = |name| proc::open(&format!("{pid}/{name}"));
        Ok(Self { memory: open("mem")?, pagemap: open("pagemap").ok() })
    }
}

/// A profile without a file: a range of a running process's memory.
pub struct ProcessRange {
    files: Arc<ProcessFiles>,
    /// Only the pages that are present are read: to read another one would add it to the process.
    is_private: bool,
    start: u64,
    length: u64,
}

impl ProcessRange {
    /// A range of addresses, in private memory or in memory that is shared.
    pub fn new(files: Arc<ProcessFiles>, range: &Range<u64>, is_private: bool) -> Self {
        let length = range.end.saturating_sub(range.start);
        Self { files, is_private, start: range.start, length }
    }

    fn pagemap(&self) -> Option<&File> {
        self.files.pagemap.as_ref().filter(|_| self.is_private)
    }
}

impl ReadAt for ProcessRange {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let room = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let start = self.start + offset.min(self.length);
        fill(&mut buffer[..room], |filled, rest| {
            FileExt::read_at(&self.files.memory, rest, start + filled)
        })
    }

    fn next_present(&self, range: Range<u64>) -> Option<Range<u64>> {
        let Some(pagemap) = self.pagemap() else { return Some(range) };
        let first_page = (self.start + range.start) / PAGE_BYTES;
        let end_page = (self.start + range.end).div_ceil(PAGE_BYTES);
        match present_pages(pagemap, first_page..end_page) {
            Err(_) => Some(range),
            Ok(None) => None,
            Ok(Some(pages)) => {
                let offset = |page: u64| (page * PAGE_BYTES).saturating_sub(self.start);
                Some(offset(pages.start).max(range.start)..offset(pages.end).min(range.end))
            }
        }
    }

    /// Only root may read the memory of others.
    fn most_bytes(&self) -> u64 {
        let is_own = !getuid().is_root() && !proc::is_inside();
        if is_own { FILE_BYTES_RANGE.1 } else { strangers_bytes() }
    }
}

/// The first of these pages that are present one after the other, in memory or swapped out.
fn present_pages(pagemap: &File, pages: Range<u64>) -> io::Result<Option<Range<u64>>> {
    const ENTRY_BYTES: usize = 8;
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    let mut first = None;
    let mut entries = [0; 1024 * ENTRY_BYTES];
    let mut at = pages.start;
    while at < pages.end {
        let wanted = (pages.end - at).min(1024) as usize * ENTRY_BYTES;
        let read = FileExt::read_at(pagemap, &mut entries[..wanted], at * ENTRY_BYTES as u64)?;
        if read < ENTRY_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for entry in entries[..read].as_chunks().0 {
            let is_present = u64::from_le_bytes(*entry) & PRESENT_OR_SWAPPED != 0;
            match first {
                Some(first) if !is_present => return Ok(Some(first..at)),
                None if is_present => first = Some(at),
                _ => {}
            }
            at += 1;
        }
    }
    Ok(first.map(|first| first..pages.end))
}

fn fill(
    buffer: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(filled as u64, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
