//! The lines of files of /proc, for those who look for a number after a name.

use super::file::{File, open_to_read};
use core::ffi::CStr;
use ramson_format::settings::parse_number;

/// The numbers that follow these names at the start of lines of a file. `None`: it cannot be read.
pub fn numbers_in<const N: usize>(path: &CStr, names: [&[u8]; N]) -> Option<[Option<u64>; N]> {
    let file = open_to_read(path).ok()?;
    let mut lines = Lines::new(&file);
    let mut found = [None; N];
    while let Some(line) = lines.next() {
        for (name, found) in names.iter().zip(&mut found) {
            let number = line.strip_prefix(*name).map(<[u8]>::trim_ascii_start);
            *found = found.or(number.and_then(parse_number).map(|(number, _)| number));
        }
    }
    Some(found)
}

/// The lines of a file of /proc, cut at `LINE_BYTES`.
pub struct Lines<'a> {
    file: &'a File,
    buffer: [u8; 256],
    filled: usize,
    taken: usize,
    line: [u8; LINE_BYTES],
}

/// As much of a line as is kept.
const LINE_BYTES: usize = 48;

impl<'a> Lines<'a> {
    pub fn new(file: &'a File) -> Self {
        Self { file, buffer: [0; 256], filled: 0, taken: 0, line: [0; LINE_BYTES] }
    }

    pub fn next(&mut self) -> Option<&[u8]> {
        let mut length = 0;
        loop {
            if self.taken == self.filled {
                self.filled = self.file.read(&mut self.buffer);
                self.taken = 0;
                if self.filled == 0 {
                    return None;
                }
            }
            let byte = *self.buffer.get(self.taken)?;
            self.taken += 1;
            if byte == b'\n' {
                return self.line.get(..length);
            }
            if let Some(place) = self.line.get_mut(length) {
                *place = byte;
                length += 1;
            }
        }
    }
}
