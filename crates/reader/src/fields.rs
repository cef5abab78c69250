//! Little-endian fields of copied bytes: one walk over the fields of a record reads them, or writes them.

/// Bytes that have fields at offsets.
pub trait Fields {
    /// Reads a field of this length from this offset, or writes it there.
    fn bytes(&mut self, offset: usize, field: &mut [u8]);

    /// The same of a number.
    fn u32(&mut self, offset: usize, field: &mut u32) {
        let mut bytes = field.to_le_bytes();
        self.bytes(offset, &mut bytes);
        *field = u32::from_le_bytes(bytes);
    }

    /// The same of a number.
    fn u64(&mut self, offset: usize, field: &mut u64) {
        let mut bytes = field.to_le_bytes();
        self.bytes(offset, &mut bytes);
        *field = u64::from_le_bytes(bytes);
    }

    /// The same of a number of 32 bits that is an index here.
    fn index(&mut self, offset: usize, field: &mut usize) {
        let mut number = *field as u32;
        self.u32(offset, &mut number);
        *field = number as usize;
    }

    /// A float that no arithmetic can trip over: 0 where the bits are no finite, non-negative number.
    fn float(&mut self, offset: usize, field: &mut f64) {
        let mut bits = field.to_bits();
        self.u64(offset, &mut bits);
        let value = f64::from_bits(bits);
        *field = if value.is_finite() && value >= 0.0 { value } else { 0.0 };
    }

    /// Bytes in a room of `most`; how many are used is the number at `length_offset`.
    fn counted(&mut self, length_offset: usize, offset: usize, most: usize, field: &mut Vec<u8>) {
        field.truncate(most);
        let mut length = field.len();
        self.index(length_offset, &mut length);
        field.resize(most, 0);
        self.bytes(offset, field);
        field.truncate(length);
    }

    /// The same of text.
    fn text(&mut self, length_offset: usize, offset: usize, most: usize, field: &mut String) {
        let mut bytes = std::mem::take(field).into_bytes();
        self.counted(length_offset, offset, most, &mut bytes);
        *field = String::from_utf8_lossy(&bytes).into_owned();
    }
}

/// One entry, or the header, as copied. Past the end everything is 0, as in a file that was cut.
#[derive(Clone, Copy)]
pub struct Entry<'a>(pub &'a [u8]);

impl Fields for Entry<'_> {
    fn bytes(&mut self, offset: usize, field: &mut [u8]) {
        match self.slice(offset, field.len()) {
            [] => field.fill(0),
            bytes => field.copy_from_slice(bytes),
        }
    }
}

/// One entry, or the header, as it is written; it has room for its fields.
impl Fields for Vec<u8> {
    fn bytes(&mut self, offset: usize, field: &mut [u8]) {
        self[offset..offset + field.len()].copy_from_slice(field);
    }
}

impl<'a> Entry<'a> {
    pub(crate) fn u32(mut self, offset: usize) -> u32 {
        let mut number = 0;
        Fields::u32(&mut self, offset, &mut number);
        number
    }

    pub(crate) fn u64(mut self, offset: usize) -> u64 {
        let mut number = 0;
        Fields::u64(&mut self, offset, &mut number);
        number
    }

    pub(crate) fn slice(self, offset: usize, length: usize) -> &'a [u8] {
        offset.checked_add(length).and_then(|end| self.0.get(offset..end)).unwrap_or_default()
    }
}
