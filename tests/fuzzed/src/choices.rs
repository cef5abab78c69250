//! Decisions of a generator, taken from an input's bytes, so that a fuzzer steers it and a few bytes describe a large file.

/// Bytes of an input that are not used yet. After the end of the input every choice is 0.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number of at most `most`, of any order of magnitude: two bytes, shifted by a third.
    pub fn size(&mut self, most: u64) -> u64 {
        let shift = self.byte() % 48;
        let number = u64::from(self.byte()) | u64::from(self.byte()) << 8;
        (number << shift).min(most)
    }
}

/// The bytes from which [`Choices::size`] makes this number: exactly, if its leading 16 bits are all of it.
pub const fn sized(number: u64) -> [u8; 3] {
    let bits = 64 - number.leading_zeros();
    let shift = bits.saturating_sub(16);
    let number = number >> shift;
    [shift as u8, number as u8, (number >> 8) as u8]
}
