//! Little-endian fields of copied bytes. Past the end everything is 0, as in a file that was cut.

/// One entry, or the header, as copied.
#[derive(Clone, Copy)]
pub struct Entry<'a>(pub &'a [u8]);

impl<'a> Entry<'a> {
    fn array<const N: usize>(self, offset: usize) -> [u8; N] {
        let bytes = offset.checked_add(N).and_then(|end| self.0.get(offset..end));
        bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    pub fn u32(self, offset: usize) -> u32 {
        u32::from_le_bytes(self.array(offset))
    }

    pub fn u64(self, offset: usize) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    /// A float that no arithmetic can trip over: 0 where the bits are no finite, non-negative number.
    pub fn float(self, offset: usize) -> f64 {
        let value = f64::from_bits(self.u64(offset));
        if value.is_finite() && value >= 0.0 { value } else { 0.0 }
    }

    pub fn slice(self, offset: usize, length: usize) -> &'a [u8] {
        offset.checked_add(length).and_then(|end| self.0.get(offset..end)).unwrap_or_default()
    }
}
