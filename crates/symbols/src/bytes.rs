//! A section's content as DWARF readers take it. It counts what is read: whatever a hostile file makes a reader do again and again, or
//! ever deeper, ends in an error here.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::ptr::from_ref;

use gimli::{EndianSlice, Error, Reader, ReaderOffsetId, Result, RunTimeEndian};

use crate::budget::Budget;

/// A reader that goes deeper calls itself without end. Functions that a compiler inlined into each other take a few kilobytes.
const MAX_STACK_BYTES: usize = 512 << 10;
/// Bytes that a reader keeps of each read at most, about: a row of a line table takes 24, and few rows are made by a single read.
const BYTES_PER_READ: u64 = 16;
/// Reads that are taken from the budget at once.
const READS_AT_ONCE: u64 = 1 << 14;

thread_local! {
    static METER: Meter = const {
        Meter {
            reads_left: Cell::new(u64::MAX),
            stack_start: Cell::new(None),
            budget: RefCell::new(None),
        }
    };
}

struct Meter {
    reads_left: Cell<u64>,
    stack_start: Cell<Option<usize>>,
    budget: RefCell<Option<Budget>>,
}

/// Does `work`, in which sections are read, at the expense of `budget`; `None`: as long as it takes.
pub(crate) fn metered<R>(budget: Option<&Budget>, work: impl FnOnce() -> R) -> R {
    METER.with(|meter| {
        meter.budget.replace(budget.cloned());
        meter.reads_left.set(if budget.is_some() { 0 } else { u64::MAX });
        meter.stack_start.set(Some(stack_address()));
        let done = work();
        meter.stack_start.set(None);
        let unused = meter.reads_left.replace(u64::MAX);
        meter.budget.take().inspect(|budget| budget.give_back(unused * BYTES_PER_READ));
        done
    })
}

/// Message for an error of a reader of `Bytes`.
pub(crate) fn reason(error: Error) -> String {
    match error {
        Error::Io => "nested deeper, or takes longer to read, than what compilers make".to_owned(),
        other => other.to_string(),
    }
}

/// The address of a variable of a function that is called now.
#[inline]
fn stack_address() -> usize {
    let variable = 0_u8;
    from_ref(black_box(&variable)).addr()
}

#[inline]
fn count_read() -> Result<()> {
    METER.with(|meter| match meter.reads_left.get() {
        0 => take_reads_slow(meter),
        left => {
            meter.reads_left.set(left - 1);
            Ok(())
        }
    })
}

#[cold]
fn take_reads_slow(meter: &Meter) -> Result<()> {
    let budget = meter.budget.borrow();
    let taken = budget.as_ref().map(|budget| budget.take(READS_AT_ONCE * BYTES_PER_READ));
    let is_taken = taken.is_some_and(|taken| taken.is_ok());
    is_taken.then(|| meter.reads_left.set(READS_AT_ONCE - 1)).ok_or(Error::Io)
}

#[inline]
fn check_depth() -> Result<()> {
    let start = METER.with(|meter| meter.stack_start.get());
    let is_deep = start.is_some_and(|start| start.abs_diff(stack_address()) > MAX_STACK_BYTES);
    if is_deep { Err(Error::Io) } else { Ok(()) }
}

/// With the order of the bytes in a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(EndianSlice<'a, RunTimeEndian>);

impl<'a> Bytes<'a> {
    pub fn new(content: &'a [u8], endian: RunTimeEndian) -> Self {
        Self(EndianSlice::new(content, endian))
    }

    pub fn slice(&self) -> &'a [u8] {
        self.0.slice()
    }
}

impl Reader for Bytes<'_> {
    type Endian = RunTimeEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> RunTimeEndian {
        self.0.endian()
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    fn empty(&mut self) {
        self.0.empty();
    }

    #[inline]
    fn truncate(&mut self, length: usize) -> Result<()> {
        self.0.truncate(length)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.0.offset_from(base.0)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.0.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.0.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> Result<usize> {
        count_read()?;
        Reader::find(&self.0, byte)
    }

    #[inline]
    fn skip(&mut self, length: usize) -> Result<()> {
        count_read()?;
        self.0.skip(length)
    }

    #[inline]
    fn split(&mut self, length: usize) -> Result<Self> {
        count_read()?;
        self.0.split(length).map(Self)
    }

    #[inline]
    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        self.0.to_slice()
    }

    #[inline]
    fn to_string(&self) -> Result<Cow<'_, str>> {
        Reader::to_string(&self.0)
    }

    /// Counts reads by length, because a text of about that length is made, such as the path of a source file.
    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        (0..self.len() as u64 / BYTES_PER_READ).try_for_each(|_| count_read())?;
        Reader::to_string_lossy(&self.0)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> Result<()> {
        count_read()?;
        Reader::read_slice(&mut self.0, buffer)
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        count_read()?;
        self.0.read_u8()
    }

    /// Every entry begins with such a number.
    #[inline]
    fn read_uleb128(&mut self) -> Result<u64> {
        count_read()?;
        check_depth()?;
        self.0.read_uleb128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads until it may not. Returns how often it could.
    fn reads(budget: Option<&Budget>, most: u64) -> u64 {
        let content = [0];
        let read = |_: &u64| Bytes::new(&content, RunTimeEndian::Little).read_u8().is_ok();
        metered(budget, || (0..most).take_while(read).count() as u64)
    }

    #[test]
    fn reads_end_with_budget() {
        let budget = Budget::of(false);
        let few = 3 * READS_AT_ONCE / 2;
        assert_eq!(reads(Some(&budget), few), few);
        let all_bytes = Budget::of(false);
        let left = all_bytes.left() - few * BYTES_PER_READ;
        assert_eq!(budget.left(), left);
        budget.take(left - 2 * READS_AT_ONCE * BYTES_PER_READ).unwrap();
        assert_eq!(reads(Some(&budget), u64::MAX), 2 * READS_AT_ONCE);
        assert_eq!(reads(Some(&budget), u64::MAX), 0);
        assert_eq!(reads(None, 1 << 20), 1 << 20);
    }

    #[test]
    fn endless_recursion_ends() {
        fn deeper(depth: usize) -> usize {
            let mut content = Bytes::new(&[1], RunTimeEndian::Little);
            if content.read_uleb128().is_err() { depth } else { black_box(deeper(depth + 1)) }
        }
        let depth = metered(None, || deeper(0));
        assert!((100..100_000).contains(&depth), "{depth}");
        // Without metering, such as in a test, depth does not count either.
        assert!(check_depth().is_ok());
    }
}
