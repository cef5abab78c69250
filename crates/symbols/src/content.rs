//! The bytes of an ELF file: on disk, or unpacked from a section of another one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Where an ELF file's bytes are.
pub(crate) enum Content {
    Disk(File),
    Memory(Vec<u8>),
}

impl Content {
    /// Fills `buffer` from `offset`, as far as there are bytes; returns how many.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read_at(buffer, offset),
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
        }
    }

    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reader_at(offset).read_exact(buffer)
    }

    /// Reads from the start, for parsers that want a stream.
    pub fn reader(&self) -> Reader<'_> {
        self.reader_at(0)
    }

    /// Reads from `position`.
    pub fn reader_at(&self, position: u64) -> Reader<'_> {
        Reader { content: self, position }
    }

    fn size_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Disk(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }
}

/// A position in a content, of which there may be several.
pub(crate) struct Reader<'a> {
    content: &'a Content,
    position: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Reader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.content.size_bytes()?.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
