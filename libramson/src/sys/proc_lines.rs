//! The lines of files of /proc, for those who look for a number after a name.

use super::file::File;
use ramson_format::settings::parse_number;

/// The number that follows `name` at the start of a line.
pub fn number_after(line: &[u8], name: &[u8]) -> Option<u64> {
    parse_number(line.strip_prefix(name)?).map(|(number, _)| number)
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
