//! Integers and texts at offsets, in untrusted bytes.

/// The number at this offset.
pub fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    let end = offset.checked_add(8)?;
    Some(u64::from_le_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

/// The four-byte number at this offset.
pub fn half(bytes: &[u8], offset: usize) -> Option<u32> {
    let end = offset.checked_add(4)?;
    Some(u32::from_le_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

/// The text at this offset, up to a zero byte; of `most` bytes at most.
pub fn text(bytes: &[u8], offset: usize, most: usize) -> Option<&[u8]> {
    let rest = bytes.get(offset..)?;
    let rest = &rest[..rest.len().min(most)];
    rest.split(|&byte| byte == 0).next()
}

/// A LEB128 number, least significant group first; `bytes` then starts after it.
pub fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
