//! Columns of small numbers as bytes: each a sequence of LEB128 numbers, together compressed. Bytes from a file are not trusted:
//! whatever they are, reading them ends, and takes memory in proportion to what was asked for.

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::io::{self, Read, Write};

/// What the columns of one snapshot may take, uncompressed.
const MOST_BYTES: u64 = 1 << 30;

/// Columns to be written, by index.
pub struct Writer(Vec<Vec<u8>>);

/// Columns that were read, by index; a number past the end of one is an error.
pub struct Reader {
    bytes: Vec<u8>,
    /// Where each column goes on, and where it ends.
    columns: Vec<(usize, usize)>,
}

/// The bytes are not what `Writer` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Writer {
    /// So many empty columns.
    pub fn new(columns: usize) -> Self {
        Self(vec![Vec::new(); columns])
    }

    /// Appends a number.
    pub fn push(&mut self, column: usize, number: u64) {
        push(&mut self.0[column], number);
    }

    /// Appends a number of any sign.
    pub fn push_signed(&mut self, column: usize, number: i64) {
        self.push(column, ((number << 1) ^ (number >> 63)) as u64);
    }

    /// All of them, compressed.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        push(&mut head, self.0.len() as u64);
        self.0.iter().for_each(|column| push(&mut head, column.len() as u64));
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&head)?;
        self.0.iter().try_for_each(|column| encoder.write_all(column))?;
        encoder.finish()
    }
}

fn push(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

impl Reader {
    /// Takes apart what `Writer::finish` made of so many columns.
    pub fn new(compressed: &[u8], columns: usize) -> Result<Self, Damaged> {
        let mut bytes = Vec::new();
        let mut decoder = DeflateDecoder::new(compressed).take(MOST_BYTES);
        decoder.read_to_end(&mut bytes).map_err(|_| Damaged)?;
        let mut head = Self { columns: vec![(0, bytes.len())], bytes };
        if head.next(0)? != columns as u64 {
            return Err(Damaged);
        }
        let lengths = (0..columns).map(|_| head.next(0)).collect::<Result<Vec<_>, _>>()?;
        let mut start = head.columns[0].0;
        let mut places = Vec::with_capacity(columns);
        for length in lengths {
            let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
            let end = end.filter(|&end| end <= head.bytes.len()).ok_or(Damaged)?;
            places.push((start, end));
            start = end;
        }
        Ok(Self { bytes: head.bytes, columns: places })
    }

    /// The next number of a column.
    pub fn next(&mut self, column: usize) -> Result<u64, Damaged> {
        let (start, end) = &mut self.columns[column];
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes[..*end].get(*start).ok_or(Damaged)?;
            *start += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    /// The next number of any sign.
    pub fn next_signed(&mut self, column: usize) -> Result<i64, Damaged> {
        self.next(column).map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// How many numbers a column can still have at most.
    pub fn most(&self, column: usize) -> usize {
        let (start, end) = self.columns[column];
        end - start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_of_any_sign_and_size_come_back(numbers: Vec<(u64, i64)>) {
            let mut writer = Writer::new(3);
            for &(number, signed) in &numbers {
                writer.push(0, number);
                writer.push_signed(2, signed);
            }
            let mut reader = Reader::new(&writer.finish().unwrap(), 3).unwrap();
            for (number, signed) in numbers {
                prop_assert_eq!(reader.next(0), Ok(number));
                prop_assert_eq!(reader.next_signed(2), Ok(signed));
            }
            prop_assert_eq!((reader.next(0), reader.next(1)), (Err(Damaged), Err(Damaged)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Ok(mut reader) = Reader::new(&bytes, 2) {
                while reader.next(1).is_ok() {}
            }
        }
    }
}
