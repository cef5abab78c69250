//! Profiles of others, in the helper that reads them.

use crate::ReadAt;
use crate::apart::{Place, READ_HEADER, READ_SNAPSHOT};
use crate::snapshot::{Header, Snapshot};
use crate::source::ProcessRange;
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
        &[READ_HEADER, READ_SNAPSHOT]
    }

    fn answer(&mut self, kind: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        let source = opened(borsh::from_slice(body).ok()?, files)?;
        let answer = match kind {
            READ_HEADER => borsh::to_vec(&Header::read(&*source)),
            _ => borsh::to_vec(&Snapshot::read(&*source)),
        };
        answer.ok()
    }
}

fn opened(place: Place, files: Vec<File>) -> Option<Box<dyn ReadAt>> {
    let mut files = files.into_iter();
    let file = files.next()?;
    Some(match place {
        Place::File { most_bytes } => Box::new(Given { file, most_bytes }),
        Place::Memory { start, length, has_pagemap } => {
            let pagemap = files.next().filter(|_| has_pagemap);
            Box::new(ProcessRange::given(file, pagemap, start, length))
        }
    })
}
