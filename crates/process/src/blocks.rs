//! Memory that is read in blocks, for lists whose members lie side by side.

use crate::memory::{Memory, word_at};
use std::cell::RefCell;

/// Bytes read at once.
const BLOCK_BYTES: u64 = 64 << 10;

/// Memory that is read in blocks, of which the last is kept.
pub struct Blocks<M> {
    pub memory: M,
    /// Its address and bytes; no bytes if it cannot be read.
    last: RefCell<Option<(u64, Vec<u8>)>>,
}

impl<M: Memory> Blocks<M> {
    pub fn of(memory: M) -> Self {
        Self { memory, last: RefCell::default() }
    }

    /// Fills `bytes`; false if any of it cannot be read.
    pub fn fill(&self, address: u64, bytes: &mut [u8]) -> bool {
        let block = address - address % BLOCK_BYTES;
        let from = (address - block) as usize;
        let mut last = self.last.borrow_mut();
        let (_, all) = last.take_if(|(at, _)| *at == block).unwrap_or_else(|| {
            let mut all = vec![0; BLOCK_BYTES as usize];
            let is_read = self.memory.read(block, &mut all);
            (block, if is_read { all } else { Vec::new() })
        });
        let (_, all) = last.insert((block, all));
        match all.get(from..from + bytes.len()) {
            Some(there) => {
                bytes.copy_from_slice(there);
                true
            }
            // It lies in two blocks, or a part of the block is not mapped.
            None => self.memory.read(address, bytes),
        }
    }

    pub fn words<const COUNT: usize>(&self, address: u64) -> Option<[u64; COUNT]> {
        let mut bytes = vec![0; COUNT * 8];
        self.fill(address, &mut bytes).then(|| words_in(&bytes))
    }

    /// Forgets what was read.
    pub fn clear(&self) {
        *self.last.borrow_mut() = None;
    }
}

/// The words in these bytes.
pub fn words_in<const COUNT: usize>(bytes: &[u8]) -> [u64; COUNT] {
    std::array::from_fn(|index| word_at(bytes, index * 8).unwrap_or(0))
}
