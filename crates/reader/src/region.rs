//! A region as it was copied: only the parts that hold something. The bytes between these parts are zeroes.

use ramson_format::RegionKind;

/// Neighbouring entries, whole except where the source is cut.
pub struct Part {
    /// Number of the first of them in the region.
    pub first: u64,
    pub bytes: Vec<u8>,
}

/// The parts of a region, by their places.
pub struct Region {
    entry_bytes: usize,
    pub parts: Vec<Part>,
    /// Entries that are zeroes, as there is nothing at their places.
    pub absent: u64,
}

impl Region {
    pub fn new(kind: RegionKind) -> Self {
        Self { entry_bytes: kind.entry_bytes() as usize, parts: Vec::new(), absent: 0 }
    }

    /// Whole entries with their numbers.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.parts.iter().flat_map(|part| {
            let numbers = part.first as usize..;
            numbers.zip(part.bytes.chunks_exact(self.entry_bytes))
        })
    }

    /// Returns `count` entries from the number `first`, if they lie in one part.
    pub fn slice(&self, first: u64, count: usize) -> Option<&[u8]> {
        let after = self.parts.partition_point(|part| part.first <= first);
        let part = self.parts.get(after.checked_sub(1)?)?;
        let start = ((first - part.first) as usize).checked_mul(self.entry_bytes)?;
        let bytes = count.checked_mul(self.entry_bytes)?;
        part.bytes.get(start..start.checked_add(bytes)?)
    }

    /// Whole entries that were copied.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(|part| (part.bytes.len() / self.entry_bytes) as u64).sum()
    }
}
