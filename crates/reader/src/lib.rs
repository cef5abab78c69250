//! The reader: makes an immutable snapshot of a profile file, whole or cut, of a process running or dead.
//!
//! It assumes that the other side is mid-write or hostile. It copies, checks, then uses the copy; it never writes, never maps,
//! and returns what it could read together with the list of what it could not.
#![forbid(unsafe_code)]

mod cost;
mod defect;
mod entries;
mod extents;
mod fields;
mod follow;
mod reading;
mod settle;
mod snapshot;

pub use defect::{Defect, ReadError};
pub use entries::{freed_check, live_check, mapping_check};
pub use fields::{Entry, Fields};
pub use follow::Follower;
pub use ramson_format::{End, LookupAddress, Way};
pub use snapshot::{Extent, FailedAllocation, Freed, Header, LiveSample, Mapping, Snapshot, Stack};

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where the bytes of a profile come from: a file, a slice, another process's memory.
pub trait ReadAt {
    /// Bytes that can be read at most.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`, as far as there are bytes; returns how many.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        fill(buffer, |filled, rest| FileExt::read_at(self, rest, offset + filled))
    }
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

/// A profile without a file: a range of a running process's memory, read through /proc/PID/mem.
pub struct ProcessRange {
    memory: File,
    start: u64,
    length: u64,
}

impl ProcessRange {
    /// The range `start..end` of process `pid`. Fails where ptrace access would.
    pub fn open(pid: u32, start: u64, end: u64) -> io::Result<Self> {
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        Ok(Self { memory, start, length: end.saturating_sub(start) })
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
            FileExt::read_at(&self.memory, rest, start + filled)
        })
    }
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
