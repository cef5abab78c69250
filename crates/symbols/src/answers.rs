//! What is known about addresses of one binary: each string once, each frame in 16 bytes. This is what the cache
//! keeps.

use hashbrown::HashMap;
use std::sync::Arc;

use crate::elf::{DebugLink, Identity};
use crate::frame::{Frame, SymbolSource};

/// A binary with more asked addresses than this gets no further answers; no profile comes near.
const MAX_ADDRESSES: usize = 1 << 23;
/// Index for "no string".
const NO_STRING: u32 = u32::MAX;

/// Frames by address, and the files that they came from.
#[derive(Default)]
pub(crate) struct Answers {
    pub source: SymbolSource,
    /// The source's file, if the source is DWARF.
    pub source_identity: Option<Identity>,
    /// All files that were looked at; a new one may know more.
    pub considered: Vec<Identity>,
    pub link: Option<DebugLink>,
    pub strings: Vec<Arc<str>>,
    pub frames: Vec<StoredFrame>,
    /// Range of `frames` by file address.
    pub by_address: HashMap<u64, (u32, u32)>,
    index_of_string: HashMap<Arc<str>, u32>,
}

/// Indices into `strings`; `file` may be `NO_STRING`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredFrame {
    pub function: u32,
    pub system_name: u32,
    pub file: u32,
    pub line: u32,
}

impl StoredFrame {
    /// Whether all indices lie within `count` strings.
    pub fn is_within(&self, count: u32) -> bool {
        self.function < count
            && self.system_name < count
            && (self.file < count || self.file == NO_STRING)
    }
}

impl Answers {
    /// The frames at `address`; `None` if it was never asked for.
    pub fn get(&self, address: u64) -> Option<Vec<Frame>> {
        let &(start, end) = self.by_address.get(&address)?;
        let string = |index: u32| self.strings[index as usize].clone();
        let frame = |stored: &StoredFrame| Frame {
            function: string(stored.function),
            system_name: string(stored.system_name),
            file: (stored.file != NO_STRING).then(|| string(stored.file)),
            line: stored.line,
        };
        Some(self.frames[start as usize..end as usize].iter().map(frame).collect())
    }

    /// Records what is at `address`.
    pub fn add(&mut self, address: u64, frames: impl IntoIterator<Item = StoredFrame>) {
        if self.by_address.len() >= MAX_ADDRESSES {
            return;
        }
        let start = self.frames.len() as u32;
        self.frames.extend(frames);
        self.by_address.insert(address, (start, self.frames.len() as u32));
    }

    /// A frame with its strings stored.
    pub fn frame(
        &mut self,
        function: &Arc<str>,
        system_name: &Arc<str>,
        file: Option<&Arc<str>>,
        line: u32,
    ) -> StoredFrame {
        StoredFrame {
            function: self.intern(function),
            system_name: self.intern(system_name),
            file: file.map_or(NO_STRING, |file| self.intern(file)),
            line,
        }
    }

    fn intern(&mut self, text: &Arc<str>) -> u32 {
        if self.index_of_string.len() != self.strings.len() {
            // Strings that came from the cache are indexed only if something is added to them.
            let indexed = self.strings.iter().zip(0..).map(|(text, index)| (text.clone(), index));
            self.index_of_string = indexed.collect();
        }
        if let Some(&index) = self.index_of_string.get(text) {
            return index;
        }
        let index = self.strings.len() as u32;
        self.strings.push(text.clone());
        self.index_of_string.insert(text.clone(), index);
        index
    }
}
