//! Small text without a heap: paths are built in fixed buffers.

use core::ffi::CStr;
use ramson_format::settings::PATH_BYTES;

/// A NUL-terminated text of bounded length. A part that does not fit is left out, and from then on `as_c_str` is `None`.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; PATH_BYTES],
    length: usize,
    overflowed: bool,
}

impl Text {
    pub const fn new() -> Self {
        Self { bytes: [0; PATH_BYTES], length: 0, overflowed: false }
    }

    /// As new. Takes no stack for another text.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
        self.length = 0;
        self.overflowed = false;
    }

    pub fn push(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.length + bytes.len();
        match self.bytes.get_mut(self.length..end) {
            // The last byte stays 0.
            Some(room) if end < PATH_BYTES => {
                room.copy_from_slice(bytes);
                self.length = end;
            }
            _ => self.overflowed = true,
        }
        self
    }

    pub fn push_number(&mut self, number: u64) -> &mut Self {
        for power in (0..=number.checked_ilog10().unwrap_or(0)).rev() {
            self.push(&[b'0' + (number / 10u64.pow(power) % 10) as u8]);
        }
        self
    }

    pub fn as_c_str(&self) -> Option<&CStr> {
        if self.overflowed {
            return None;
        }
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlong_text_is_no_path() {
        let mut text = Text::new();
        text.push(b"/a").push_number(0).push(b"-").push_number(u64::MAX);
        assert_eq!(text.as_c_str().unwrap().to_bytes(), b"/a0-18446744073709551615");
        assert!(text.push(&[b'x'; PATH_BYTES]).as_c_str().is_none());
    }
}
