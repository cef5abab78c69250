//! Profiles of others, in the worker that reads them.

use crate::ReadAt;
use crate::apart::{Depth, READ_FILE, read_to_depth};
use ramson_apart::Handler;
use std::fs::File;
use std::io;
use std::ops::Range;

/// Reads profiles that come as descriptors.
#[derive(Default)]
pub struct ProfileReader;

/// A file, of which no more is read than its asker says.
struct Given {
    file: File,
    most_bytes: u64,
}

impl ReadAt for Given {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        ReadAt::read_at(&self.file, offset, buffer)
    }

    fn next_present(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.file.next_present(range)
    }

    fn most_bytes(&self) -> u64 {
        self.most_bytes
    }
}

impl Handler for ProfileReader {
    fn kinds(&self) -> &'static [u8] {
        &[READ_FILE]
    }

    fn answer(&mut self, _: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        let (depth, most_bytes): (Depth, u64) = borsh::from_slice(body).ok()?;
        let [file] = files.try_into().ok()?;
        read_to_depth(&Given { file, most_bytes }, depth)
    }
}
