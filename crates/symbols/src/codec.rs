//! Answers as bytes, on disk and inside profiles. All integers little-endian; a list is a u32 count and its items. What was
//! read is as good as what was written: every index has been checked.

use std::sync::Arc;

use crate::answers::{Answers, StoredFrame};
use crate::elf::Identity;

pub(crate) fn put(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Strings, frames (16 bytes each), addresses (16 bytes each, ascending).
pub(crate) fn put_answers(out: &mut Vec<u8>, answers: &Answers) {
    put(out, answers.strings.len() as u32);
    for text in &answers.strings {
        put_bytes(out, text.as_bytes());
    }
    put(out, answers.frames.len() as u32);
    for frame in &answers.frames {
        for field in [frame.function, frame.system_name, frame.file, frame.line] {
            put(out, field);
        }
    }
    put(out, answers.by_address.len() as u32);
    let mut ranges: Vec<_> = answers.by_address.iter().collect();
    ranges.sort_unstable();
    for (address, &(start, end)) in ranges {
        out.extend_from_slice(&address.to_le_bytes());
        put(out, start);
        put(out, end);
    }
}

/// The rest of the body.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    pub fn identity(&mut self) -> Option<Identity> {
        Some(Identity { size_bytes: self.u64()?, modified_ns: self.u64()? })
    }

    /// A list whose items take at least `item_bytes` each, so that a wrong count allocates nothing.
    pub fn list<T>(
        &mut self,
        item_bytes: usize,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / item_bytes {
            return None;
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    /// What `put_answers` wrote, into empty answers.
    pub fn answers(&mut self, answers: &mut Answers) -> Option<()> {
        answers.strings = self.list(4, |input| {
            let text = std::str::from_utf8(input.bytes()?).ok()?;
            Some(Arc::from(text))
        })?;
        let string_count = answers.strings.len() as u32;
        answers.frames = self.list(16, |input| {
            let (function, system_name, file) = (input.u32()?, input.u32()?, input.u32()?);
            let frame = StoredFrame { function, system_name, file, line: input.u32()? };
            frame.is_within(string_count).then_some(frame)
        })?;
        let frame_count = answers.frames.len() as u32;
        let by_address = self.list(16, |input| {
            let (address, start, end) = (input.u64()?, input.u32()?, input.u32()?);
            (start <= end && end <= frame_count).then_some((address, (start, end)))
        })?;
        answers.by_address = by_address.into_iter().collect();
        Some(())
    }
}
