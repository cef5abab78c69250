//! Answers for addresses of one binary: each string once, each frame in 20 bytes. The cache and profiles contain these
//! answers as borsh writes them: integers little-endian, a list as a u32 count and its items.

use std::collections::HashMap;
use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};

use crate::elf::Identity;
use crate::frame::{Frame, SymbolSource};
use crate::links::DebugLink;
use crate::rooted::RootedPath;

/// A binary with more asked addresses than this gets no further answers; no profile comes near.
const MAX_ADDRESSES: usize = 1 << 23;
/// Index for "no string".
const NO_STRING: u32 = u32::MAX;
/// An offset that is not known.
const NO_OFFSET: u32 = u32::MAX;

/// Which files answers come from.
#[derive(Clone, Default, BorshSerialize, BorshDeserialize)]
pub(crate) struct Origin {
    pub source: SymbolSource,
    /// The source's file, if it was found by name.
    pub place: Option<RootedPath>,
    pub identity: Option<Identity>,
    /// All files that were looked at; a new one may know more.
    pub considered: Vec<Identity>,
    pub link: Option<DebugLink>,
    /// A file that answers were read from belongs neither to root nor to the user who runs this.
    #[borsh(skip)]
    pub is_strange: bool,
}

/// Frames by address.
#[derive(Default, BorshSerialize, BorshDeserialize)]
pub(crate) struct Answers {
    strings: Vec<Arc<str>>,
    frames: Vec<StoredFrame>,
    /// Range of `frames` by file address.
    pub by_address: HashMap<u64, (u32, u32)>,
    #[borsh(skip)]
    index_of_string: HashMap<Arc<str>, u32>,
}

/// Indices into `strings`; `file` may be `NO_STRING`, and `offset` `NO_OFFSET`.
#[derive(BorshSerialize, BorshDeserialize)]
struct StoredFrame {
    function: u32,
    system_name: u32,
    file: u32,
    line: u32,
    offset: u32,
}

impl Answers {
    /// Whether every index is one of something: to be asked of answers that were read.
    pub fn is_valid(&self) -> bool {
        let is_string = |index: u32| (index as usize) < self.strings.len();
        let is_frame = |frame: &StoredFrame| {
            is_string(frame.function)
                && is_string(frame.system_name)
                && (is_string(frame.file) || frame.file == NO_STRING)
        };
        let is_range =
            |&(start, end): &(u32, u32)| start <= end && end as usize <= self.frames.len();
        self.frames.iter().all(is_frame) && self.by_address.values().all(is_range)
    }

    /// The frames at `address`; `None` if it was never asked for.
    pub fn get(&self, address: u64) -> Option<Vec<Frame>> {
        let &(start, end) = self.by_address.get(&address)?;
        let string = |index: u32| self.strings[index as usize].clone();
        let frame = |stored: &StoredFrame| Frame {
            function: string(stored.function),
            system_name: string(stored.system_name),
            file: (stored.file != NO_STRING).then(|| string(stored.file)),
            line: stored.line,
            offset: Some(stored.offset).filter(|&offset| offset != NO_OFFSET),
        };
        Some(self.frames[start as usize..end as usize].iter().map(frame).collect())
    }

    /// Records what is at `address`.
    pub fn add(&mut self, address: u64, frames: &[Frame]) {
        if self.by_address.len() >= MAX_ADDRESSES {
            return;
        }
        let start = self.frames.len() as u32;
        for frame in frames {
            let stored = StoredFrame {
                function: self.intern(&frame.function),
                system_name: self.intern(&frame.system_name),
                file: frame.file.as_ref().map_or(NO_STRING, |file| self.intern(file)),
                line: frame.line,
                offset: frame.offset.unwrap_or(NO_OFFSET),
            };
            self.frames.push(stored);
        }
        self.by_address.insert(address, (start, self.frames.len() as u32));
    }

    fn intern(&mut self, text: &Arc<str>) -> u32 {
        if self.index_of_string.len() != self.strings.len() {
            // Strings that were read are indexed only if something is added to them.
            self.index_of_string = self.strings.iter().cloned().zip(0..).collect();
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
