//! The string table.

use std::borrow::Cow;

/// All strings end to end.
#[derive(Default)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    /// The text at `index`; empty where there is none.
    pub fn get(&self, index: i64) -> Cow<'_, str> {
        let found = usize::try_from(index).ok().and_then(|index| {
            let start =
                index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
            Some(&self.bytes[start?..*self.ends.get(index)?])
        });
        String::from_utf8_lossy(found.unwrap_or_default())
    }

    /// Whether there is one at `index`.
    pub fn has(&self, index: i64) -> bool {
        usize::try_from(index).is_ok_and(|index| index < self.ends.len())
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends one; returns the bytes that it takes.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        size_of::<usize>() + bytes.len()
    }
}
