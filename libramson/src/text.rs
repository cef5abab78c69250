//! Small text without a heap: paths are built in, and numbers read from, fixed buffers.

use core::ffi::CStr;

/// Longest path that ramson makes.
pub const PATH_BYTES: usize = 512;

/// A NUL-terminated text of bounded length. Once it overflows it stays empty and `as_c_str` is `None`.
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
        (self.length, self.overflowed) = (0, false);
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
        let mut digits = [0u8; 20];
        let mut rest = number;
        let mut first = digits.len();
        for (index, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            first = index;
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or_default())
    }

    pub fn as_c_str(&self) -> Option<&CStr> {
        if self.overflowed {
            return None;
        }
        CStr::from_bytes_with_nul(self.bytes.get(..=self.length)?).ok()
    }
}

/// Reads a decimal number from the front; the number and how many bytes it took.
pub fn parse_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    let mut taken = 0;
    for &byte in bytes {
        if !byte.is_ascii_digit() {
            break;
        }
        value = value.checked_mul(10)?.checked_add((byte - b'0') as u64)?;
        taken += 1;
    }
    (taken > 0).then_some((value, taken))
}

/// Reads a hexadecimal number in lower case from the front; the number and how many bytes it took.
pub fn parse_hexadecimal(bytes: &[u8]) -> Option<(u64, usize)> {
    let digits = bytes.iter().map_while(|&byte| (byte as char).to_digit(16));
    let (value, taken) =
        digits.fold((0u64, 0), |(value, taken), digit| (value << 4 | digit as u64, taken + 1));
    (1..=16).contains(&taken).then_some((value, taken))
}

/// Reads a size: a number with an optional K, M, G or T (powers of 1,024) and an optional "iB" or "B".
pub fn parse_size(bytes: &[u8]) -> Option<u64> {
    let (value, taken) = parse_number(bytes)?;
    let (shift, rest) = match bytes.get(taken..)? {
        [b'k' | b'K', rest @ ..] => (10, rest),
        [b'm' | b'M', rest @ ..] => (20, rest),
        [b'g' | b'G', rest @ ..] => (30, rest),
        [b't' | b'T', rest @ ..] => (40, rest),
        rest => (0, rest),
    };
    let known_suffix = matches!(rest, b"" | b"B" | b"b" | b"iB" | b"ib");
    (known_suffix && value <= u64::MAX >> shift).then(|| value << shift)
}

/// Reads a percentage with at most four decimals, as millionths of the whole.
pub fn parse_percent(bytes: &[u8]) -> Option<u32> {
    const DECIMALS: usize = 4;
    let (whole, taken) = parse_number(bytes)?;
    let (fraction, digits) = match bytes.get(taken..)? {
        [] => (0, 0),
        [b'.', rest @ ..] => parse_number(rest).filter(|&(_, digits)| digits == rest.len())?,
        _ => return None,
    };
    let scale = 10u64.pow(DECIMALS.checked_sub(digits)? as u32);
    let millionths = whole.checked_mul(10_000)?.checked_add(fraction * scale)?;
    u32::try_from(millionths).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit_and_nothing_else_is() {
        assert_eq!(parse_size(b"512K"), Some(512 << 10));
        assert_eq!(parse_size(b"1MiB"), Some(1 << 20));
        assert_eq!(parse_size(b"77"), Some(77));
        for wrong in
            [&b""[..], b"K", b"-1", b"1.5M", b"1X", b"99999999999G", b"99999999999999999999"]
        {
            assert_eq!(parse_size(wrong), None);
        }
    }

    #[test]
    fn percentages_are_read_with_up_to_four_decimals() {
        assert_eq!(parse_percent(b"1"), Some(10_000));
        assert_eq!(parse_percent(b"0.5"), Some(5_000));
        assert_eq!(parse_percent(b"12.0625"), Some(120_625));
        for wrong in
            [&b""[..], b".5", b"1.", b"1%", b"-1", b"0.00001", b"1.5.", b"99999999999999999999"]
        {
            assert_eq!(parse_percent(wrong), None);
        }
    }

    #[test]
    fn a_text_that_overflows_is_no_path() {
        let mut text = Text::new();
        text.push(b"/a").push_number(0).push(b"-").push_number(u64::MAX);
        assert_eq!(text.as_c_str().unwrap().to_bytes(), b"/a0-18446744073709551615");
        assert!(text.push(&[b'x'; PATH_BYTES]).as_c_str().is_none());
    }
}
