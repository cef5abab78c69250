//! The bytes of a database with those of its write-ahead log (<https://sqlite.org/fileformat2.html#walformat>), read from descriptors: nothing is
//! opened, locked or written. A writer that goes on meanwhile is noticed: then the log is not what it was.

use crate::schema::{HistoryError, failed};
use rusqlite::ffi::SQLITE_IOERR;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};

/// The header of a database, and what of it is looked at: the size of a page; twice the journal mode, of which a database in memory has another.
const HEADER_BYTES: usize = 100;
const PAGE_SIZE_AT: usize = 16;
const MODES: std::ops::Range<usize> = 18..20;
const LEGACY_MODE: u8 = 1;
const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The last bit tells in which order the bytes are summed up.
const LOG_MAGIC: u32 = 0x377f_0682;
const LOG_FORMAT: u32 = 3_007_000;
const MOST_PAGE_BYTES: u32 = 1 << 16;
const LEAST_PAGE_BYTES: u32 = 512;

/// A database as of the last commit.
pub struct Image<'a> {
    database: &'a File,
    log_file: Option<&'a File>,
    log: Log,
    /// When the database was last written, in s and ns since 1970; it counts if there is no log.
    modified: (i64, i64),
    page_bytes: u32,
    pages: u64,
    /// Content of the page that is being read.
    page: Vec<u8>,
    at: usize,
    next: u64,
}

/// The part of a log that counts: up to the last commit.
#[derive(Default, PartialEq)]
struct Log {
    header: Vec<u8>,
    page_bytes: u32,
    /// Pages of the whole database; 0 if there is no commit.
    pages: u32,
    /// Offset of each page's last content in the log, in bytes.
    pages_at: HashMap<u32, u64>,
}

impl<'a> Image<'a> {
    pub fn of(database: &'a File, log_file: Option<&'a File>) -> Result<Self, HistoryError> {
        let log = log_file.map_or_else(|| Ok(Log::default()), Log::read).map_err(unread)?;
        let mut header = [0; HEADER_BYTES];
        let length = database.metadata().map_err(unread)?.len();
        let has_header = database.read_exact_at(&mut header, 0).is_ok();
        let own = u32::from(u16::from_be_bytes([header[PAGE_SIZE_AT], header[PAGE_SIZE_AT + 1]]));
        let own = if own == 1 { MOST_PAGE_BYTES } else { own };
        let page_bytes = if log.pages > 0 { log.page_bytes } else { own };
        if !is_page_size(page_bytes) || !has_header && log.pages == 0 {
            return Err(HistoryError::NotAHistory);
        }
        let pages = match log.pages {
            0 => length / u64::from(page_bytes),
            pages => pages.into(),
        };
        let modified = modified(database).map_err(unread)?;
        let page = vec![0; page_bytes as usize];
        let at = page.len();
        Ok(Self { database, log_file, log, modified, page_bytes, pages, page, at, next: 1 })
    }

    pub fn bytes(&self) -> u64 {
        self.pages * u64::from(self.page_bytes)
    }

    /// Whether nothing was written since it was begun to be read: then what was read is of one commit.
    pub fn is_still(&self) -> Result<bool, HistoryError> {
        match self.log_file {
            None => Ok(modified(self.database).map_err(unread)? == self.modified),
            Some(log) => {
                let is_there = log.metadata().map_err(unread)?.nlink() > 0;
                Ok(is_there && Log::read(log).map_err(unread)? == self.log)
            }
        }
    }

    fn read_page(&mut self) -> io::Result<()> {
        let number = self.next;
        let place = u32::try_from(number).ok().and_then(|number| self.log.pages_at.get(&number));
        let (file, at) = match (self.log_file, place) {
            (Some(log), Some(&at)) => (log, at),
            _ => (self.database, (number - 1) * u64::from(self.page_bytes)),
        };
        // A page by which a commit made the database larger may not have reached the file.
        self.page.fill(0);
        let mut filled = 0;
        while filled < self.page.len() {
            match file.read_at(&mut self.page[filled..], at + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        if number == 1 {
            self.page[MODES].fill(LEGACY_MODE);
        }
        self.at = 0;
        self.next = number + 1;
        Ok(())
    }
}

impl Read for Image<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.page.len() {
            if self.next > self.pages {
                return Ok(0);
            }
            self.read_page()?;
        }
        let count = (&self.page[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

impl Log {
    /// As far as its frames are whole and their sums right: up to the last commit.
    fn read(file: &File) -> io::Result<Self> {
        let mut header = vec![0; LOG_HEADER_BYTES];
        if file.read_exact_at(&mut header, 0).is_err() {
            return Ok(Self::default());
        }
        let word = |at: usize| word_at(&header, at);
        let page_bytes = word(8);
        let mut sums = Sums { is_big_endian: word(0) & 1 == 1, first: 0, second: 0 };
        sums.add(&header[..24]);
        let is_log = word(0) & !1 == LOG_MAGIC && word(4) == LOG_FORMAT && sums.are(&header[24..]);
        if !is_log || !is_page_size(page_bytes) {
            return Ok(Self::default());
        }
        let mut log = Self { page_bytes, ..Self::default() };
        let mut pending = Vec::new();
        let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes as usize];
        let mut at = LOG_HEADER_BYTES as u64;
        while file.read_exact_at(&mut frame, at).is_ok() {
            let (head, page) = frame.split_at(FRAME_HEADER_BYTES);
            sums.add(&head[..8]);
            sums.add(page);
            if head[8..16] != header[16..24] || !sums.are(&head[16..]) {
                break;
            }
            pending.push((word_at(head, 0), at + FRAME_HEADER_BYTES as u64));
            let pages = word_at(head, 4);
            if pages > 0 {
                log.pages = pages;
                log.pages_at.extend(pending.drain(..));
            }
            at += frame.len() as u64;
        }
        log.header = header;
        Ok(log)
    }
}

/// The sums over a log.
struct Sums {
    is_big_endian: bool,
    first: u32,
    second: u32,
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<4>();
        let word = if self.is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        let (mut first, mut second) = (self.first, self.second);
        for pair in words.chunks_exact(2) {
            first = first.wrapping_add(word(pair[0])).wrapping_add(second);
            second = second.wrapping_add(word(pair[1])).wrapping_add(first);
        }
        (self.first, self.second) = (first, second);
    }

    fn are(&self, bytes: &[u8]) -> bool {
        (self.first, self.second) == (word_at(bytes, 0), word_at(bytes, 4))
    }
}

/// Whose order does not depend on the machine.
fn word_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |&word| u32::from_be_bytes(word))
}

fn is_page_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (LEAST_PAGE_BYTES..=MOST_PAGE_BYTES).contains(&bytes)
}

fn modified(file: &File) -> io::Result<(i64, i64)> {
    let facts = file.metadata()?;
    Ok((facts.mtime(), facts.mtime_nsec()))
}

fn unread(error: io::Error) -> HistoryError {
    HistoryError::Database(failed(SQLITE_IOERR, error.to_string()))
}
