//! The bytes of a file, unpacked: where they end, why they end, and how much memory may be made of
//! them.
//!
//! Two promises bound what a hostile file can cost. Memory: what is built may take [`FREE_BYTES`]
//! plus [`BYTES_PER_BYTE`] times the unpacked bytes read so far, and of a packed file no more than
//! [`FREE_BYTES`] plus [`BYTES_PER_PACKED_BYTE`] times its own. Unpacking: no more than
//! [`FREE_BYTES`] plus [`MOST_EXPANSION`] times the packed bytes read so far. A reader that meets a
//! bound stops and keeps what it has. A [`Budget`] bounds both whatever the bytes: what exceeds it is
//! refused.

use crate::defect::{ImportDefect, ImportError};
use crate::packing::{MAGIC_BYTES, Packing, unpacked};
use crate::read_ahead::ReadAhead;
use memchr::memchr;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

/// Memory that any file may take.
pub const FREE_BYTES: u64 = 32 << 20;
/// Bytes of memory for each unpacked byte. A million stacks of functions with small numbers come to 5.
pub const BYTES_PER_BYTE: u64 = 6;
/// Bytes of memory for each packed byte. Profiles that are large enough to tell come to less than 10.
pub const BYTES_PER_PACKED_BYTE: u64 = 32;
/// Unpacked bytes for each packed byte. DEFLATE can make 1,032; profiles come to 10 to 50.
pub const MOST_EXPANSION: u64 = 300;
/// A longer line is left out.
const MOST_LINE_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// From so many packed bytes on, a second thread is worth its start.
const LARGE_BYTES: u64 = 1 << 20;

/// Bounds for reading one file, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of memory, about.
    pub memory_bytes: u64,
    /// Bytes that are read, unpacked; they stand for time.
    pub input_bytes: u64,
}

impl Budget {
    /// Bounds for a file that belongs to the caller or to root.
    pub const OWN: Budget = Budget { memory_bytes: 4 << 30, input_bytes: u64::MAX };
    /// Bounds for a file of another user's, or a server's.
    pub const STRANGER: Budget = Budget { memory_bytes: 512 << 20, input_bytes: 512 << 20 };

    /// The same, as the user wants it.
    pub fn stranger() -> Budget {
        let memory_bytes = ramson_apart::bounds(false).memory_bytes;
        Budget { memory_bytes, input_bytes: memory_bytes }
    }
}

/// Why a record was not taken.
pub enum Stop {
    /// It makes no sense.
    BadLine,
    /// Reading has to end, for a reason that is among the defects.
    End,
    /// The file cannot be read at all.
    Error(ImportError),
}

/// A file while it is read.
pub struct Input<'a> {
    source: Box<dyn Read + 'a>,
    pub packing: Packing,
    packed: Rc<Cell<u64>>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Unpacked bytes that came out of `source`.
    unpacked: u64,
    charged: u64,
    budget: Budget,
    /// The bound of the budget that was exceeded, if one was.
    pub exceeded_bytes: Option<u64>,
    is_at_end: bool,
    /// Why the bytes ended early, or what was left out.
    pub defects: Vec<ImportDefect>,
    pub bad_lines: u64,
    long_lines: u64,
}

impl<'a> Input<'a> {
    /// Looks at the first bytes, and unpacks if they are packed.
    pub fn new(budget: Budget, source: impl Read + 'a) -> io::Result<Input<'a>> {
        let packed = Rc::new(Cell::new(0));
        let (packing, source) = unpacked(source, packed.clone(), budget.input_bytes)?;
        Ok(Input::of(budget, source, packing, packed))
    }

    /// The same for a regular file, of which nothing was read yet. A large one is unpacked while it is read.
    pub fn of_file(budget: Budget, file: File) -> io::Result<Input<'a>> {
        let file = Arc::new(file);
        let mut magic = [0; MAGIC_BYTES];
        let seen = file.read_at(&mut magic, 0)?;
        let packing = Packing::of(&magic[..seen]);
        if packing != Packing::None && file.metadata()?.len() >= LARGE_BYTES {
            let packed = Rc::new(Cell::new(0));
            if let Some(ahead) = ReadAhead::start(&file, packed.clone(), budget.input_bytes) {
                return Ok(Input::of(budget, Box::new(ahead), packing, packed));
            }
        }
        Input::new(budget, file)
    }

    fn of(
        budget: Budget,
        source: Box<dyn Read + 'a>,
        packing: Packing,
        packed: Rc<Cell<u64>>,
    ) -> Input<'a> {
        Input {
            source,
            packing,
            packed,
            buffer: vec![0; CHUNK_BYTES],
            start: 0,
            end: 0,
            unpacked: 0,
            charged: 0,
            budget,
            exceeded_bytes: None,
            is_at_end: false,
            defects: Vec::new(),
            bad_lines: 0,
            long_lines: 0,
        }
    }

    /// Up to `bytes` bytes without taking them; fewer only at the end.
    pub fn peek(&mut self, bytes: usize) -> &[u8] {
        while self.end - self.start < bytes && self.fill() {}
        &self.buffer[self.start..self.end.min(self.start.saturating_add(bytes))]
    }

    /// Takes `bytes` bytes; `None` if fewer are left.
    pub fn take(&mut self, bytes: usize) -> Option<&[u8]> {
        if self.peek(bytes).len() < bytes {
            return None;
        }
        self.start += bytes;
        Some(&self.buffer[self.start - bytes..self.start])
    }

    /// Passes over `bytes` bytes without holding them; false if fewer are left.
    pub fn skip(&mut self, mut bytes: u64) -> bool {
        while bytes > 0 {
            if self.start == self.end && !self.fill() {
                return false;
            }
            let step = bytes.min((self.end - self.start) as u64);
            self.start += step as usize;
            bytes -= step;
        }
        true
    }

    /// The next line without its end; `None` after the last one. Lines of more than 4 MiB are left out and counted.
    pub fn line(&mut self) -> Option<&[u8]> {
        let without_return = |line| <[u8]>::strip_suffix(line, b"\r").unwrap_or(line);
        let mut searched = 0;
        let mut is_long = false;
        loop {
            match memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                Some(at) => {
                    let line = self.start..self.start + searched + at;
                    self.start = line.end + 1;
                    if !is_long {
                        return Some(without_return(&self.buffer[line]));
                    }
                    searched = 0;
                    is_long = false;
                }
                None => {
                    searched = self.end - self.start;
                    if is_long || searched > MOST_LINE_BYTES {
                        self.long_lines += u64::from(!is_long);
                        self.start = self.end;
                        searched = 0;
                        is_long = true;
                    }
                    if !self.fill() {
                        let line = &self.buffer[self.start..self.end];
                        self.start = self.end;
                        return (!line.is_empty()).then(|| without_return(line));
                    }
                }
            }
        }
    }

    /// Gives every line to `take`, until that ends it. Bad lines are counted.
    pub fn each_line(
        &mut self,
        mut take: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<(), Stop>,
    ) -> Result<(), ImportError> {
        let mut line = Vec::new();
        while let Some(bytes) = self.line() {
            line.clear();
            line.extend_from_slice(bytes);
            match take(self, &mut line) {
                Ok(()) => {}
                Err(Stop::BadLine) => self.bad_lines += 1,
                Err(Stop::End) => break,
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends reading if no `bytes` more bytes of memory may be used for what was read.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Stop> {
        self.charged += bytes as u64;
        if self.charged > self.budget.memory_bytes {
            self.exceeded_bytes = Some(self.budget.memory_bytes);
            return Err(Stop::End);
        }
        let is_packed = self.packing != Packing::None;
        let bound = match self.charged.saturating_sub(FREE_BYTES) {
            more if more > BYTES_PER_BYTE * self.unpacked => ImportDefect::MemoryBound,
            more if is_packed && more > BYTES_PER_PACKED_BYTE * self.packed.get() => {
                ImportDefect::PackedMemoryBound
            }
            _ => return Ok(()),
        };
        if !self.defects.contains(&bound) {
            self.defects.push(bound);
        }
        Err(Stop::End)
    }

    /// Unpacked bytes read so far.
    pub fn unpacked_bytes(&self) -> u64 {
        self.unpacked - (self.end - self.start) as u64
    }

    /// Defects of the bytes themselves.
    pub fn into_defects(mut self) -> Vec<ImportDefect> {
        if self.long_lines > 0 {
            self.defects.push(ImportDefect::LongLines(self.long_lines));
        }
        self.defects
    }

    /// Reads one more chunk; false at the end.
    fn fill(&mut self) -> bool {
        if self.is_at_end {
            return false;
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // Grows with what really came: a length that only claims to be large costs nothing.
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 3 / 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(bytes) => {
                    self.end += bytes;
                    self.unpacked += bytes as u64;
                    return self.is_within_bounds();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.end_with(&error),
            }
            return false;
        }
    }
    /// Whether what was unpacked may be used.
    fn is_within_bounds(&mut self) -> bool {
        if self.unpacked > self.budget.input_bytes {
            self.is_at_end = true;
            self.exceeded_bytes = Some(self.budget.input_bytes);
            return false;
        }
        if self.unpacked > FREE_BYTES + MOST_EXPANSION * self.packed.get() {
            self.is_at_end = true;
            self.defects.push(ImportDefect::ExpandsTooMuch);
        }
        true
    }

    fn end_with(&mut self, error: &io::Error) {
        self.is_at_end = true;
        if error.kind() == ErrorKind::FileTooLarge || self.packed.get() > self.budget.input_bytes {
            self.exceeded_bytes = Some(self.budget.input_bytes);
            return;
        }
        self.defects.push(match (self.packing, error.kind()) {
            (Packing::None, _) => ImportDefect::Unreadable(error.to_string()),
            (_, ErrorKind::UnexpectedEof) => ImportDefect::PackedCut,
            _ => ImportDefect::PackedDamaged,
        });
    }
}
