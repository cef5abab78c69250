//! Chunks in fastbins and tcaches: freed by the program, but in use for the rest of the statistics.

use super::find::Parameters;
use super::heaps::Segment;
use super::layout::{Layout, SMALL_TCACHE_BINS, chunk};
use super::mapped_chunks::range_of;
use super::statistics::Kept;
use crate::memory::{Memory, PAGE_BYTES, Presence, page_of, read_present, word_at};
use std::ops::Range;

/// Pages kept, direct-mapped.
const KEPT_PAGES: usize = 2048;
/// Times a list that changes is read.
const MOST_TRIES: u32 = 4;

/// Reads words of the segments' present pages.
pub struct Heap<'a, M> {
    pub memory: &'a M,
    pub layout: &'static Layout,
    pub parameters: Parameters,
    /// By address.
    pub segments: &'a [&'a Segment],
    /// Address and contents; an address of 0 is none.
    pages: Vec<(u64, Vec<u8>)>,
    /// Pages that may still be read; then the rest of a list stays unknown.
    budget: usize,
}

impl<'a, M: Memory> Heap<'a, M> {
    /// Reads no more than `budget` pages.
    pub fn new(
        memory: &'a M,
        layout: &'static Layout,
        parameters: Parameters,
        segments: &'a [&'a Segment],
        budget: usize,
    ) -> Self {
        let pages = vec![(0, Vec::new()); KEPT_PAGES];
        Self { memory, layout, parameters, segments, pages, budget }
    }

    pub fn word(&mut self, address: u64) -> Option<u64> {
        let start = page_of(address);
        let slot = slot(start);
        if self.pages[slot].0 != start {
            self.load(start, slot)?;
        }
        word_at(&self.pages[slot].1, (address - start) as usize)
    }

    fn load(&mut self, start: u64, slot: usize) -> Option<()> {
        let behind = self.segments.partition_point(|segment| page_of(segment.start) <= start);
        let segment = self.segments.get(behind.saturating_sub(1))?;
        if !segment.presence.is_present(start) {
            return None;
        }
        self.budget = self.budget.checked_sub(1)?;
        let (kept, bytes) = &mut self.pages[slot];
        bytes.resize(PAGE_BYTES as usize, 0);
        *kept = 0;
        self.memory.read(start, bytes).then(|| *kept = start)
    }

    /// The size of the chunk whose block is at `block`, if there can be one.
    pub fn chunk_bytes(&mut self, block: u64) -> Option<u64> {
        let is_aligned = block != 0 && block.is_multiple_of(chunk::ALIGNMENT);
        let head = self.word(block.checked_sub(8).filter(|_| is_aligned)?)?;
        (head & chunk::IS_MMAPPED == 0).then_some(head & !chunk::FLAGS)
    }

    /// Follows the fastbin at the given address, whose first chunk was `first`, and adds its chunks, of `bytes`, to `chunks`.
    pub fn fastbin(
        &mut self,
        (address, first): (u64, u64),
        bytes: u64,
        chunks: &mut Vec<(u64, u64)>,
    ) -> Kept {
        let others = chunks.len();
        let mut kept = self.fastbin_once(first, bytes, chunks);
        for _ in 1..MOST_TRIES {
            let first = read_present(self.memory, address, 8).and_then(|head| word_at(&head, 0));
            let Some(first) = first.filter(|_| kept.is_cut && self.budget > 0) else { break };
            self.pages.iter_mut().for_each(|(start, _)| *start = 0);
            chunks.truncate(others);
            kept = self.fastbin_once(first, bytes, chunks);
        }
        kept
    }

    fn fastbin_once(&mut self, first: u64, bytes: u64, chunks: &mut Vec<(u64, u64)>) -> Kept {
        let mut kept = Kept::default();
        let mut at = first;
        let all: u64 = self.segments.iter().map(|segment| segment.end - segment.start).sum();
        while at != 0 {
            let is_one = self.chunk_bytes(at.wrapping_add(16)) == Some(bytes);
            let link = self.word(at.wrapping_add(16)).filter(|_| is_one && kept.bytes <= all);
            let Some(link) = link else {
                kept.is_cut = true;
                break;
            };
            kept.add_small(1, bytes);
            chunks.push((at, at + bytes));
            at = if self.layout.has_safe_linking { link ^ (at + 16) >> 12 } else { link };
        }
        kept
    }

    /// Returns the chunks that the tcache in the chunk at `address` holds, if it can be one: without a chunk, it may as well be other zeros.
    pub fn tcache(&mut self, address: u64) -> Option<Kept> {
        for _ in 0..MOST_TRIES {
            if let Some(kept) = self.tcache_once(address + 16) {
                return Some(kept);
            }
            for read in [address, address + self.layout.tcache.chunk_bytes()] {
                self.pages[slot(read)].0 = 0;
            }
        }
        None
    }

    fn tcache_once(&mut self, block: u64) -> Option<Kept> {
        let tcache = self.layout.tcache;
        let mut kept = Kept::default();
        let entries = block + (tcache.bins * tcache.count_bytes) as u64;
        for bin in 0..tcache.bins {
            let count = self.tcache_count(block, bin)?;
            let first = self.word(entries + 8 * bin as u64)?;
            if (count == 0) != (first == 0) {
                return None;
            }
            let sizes = tcache.sizes(bin);
            if bin >= SMALL_TCACHE_BINS {
                kept.add(self.large_tcache_bin(first, count, sizes)?);
            } else if count > 0 {
                let is_one = self.chunk_bytes(first) == Some(sizes.start);
                kept.add_small(count, is_one.then_some(sizes.start)?);
            }
        }
        Some(kept)
    }

    /// How many chunks the bin has; `None` if the counter cannot be one.
    fn tcache_count(&mut self, block: u64, bin: usize) -> Option<u64> {
        let tcache = self.layout.tcache;
        let counter = block + (bin * tcache.count_bytes) as u64;
        let bits = 8 * tcache.count_bytes;
        let count = self.word(counter & !7)? >> (8 * (counter & 7)) & ((1 << bits) - 1);
        let other = self.parameters.tcache_count.checked_sub(count)?;
        Some(if tcache.counts_room { other } else { count })
    }

    /// Follows the list of a bin whose chunks, by size, are of `sizes`. They may have been mapped, and so lie in no segment.
    fn large_tcache_bin(&mut self, first: u64, count: u64, sizes: Range<u64>) -> Option<Kept> {
        let mut kept = Kept::default();
        let mut at = first;
        let mut least = sizes.start;
        for _ in 0..count {
            let Some(budget) = self.budget.checked_sub(1) else {
                kept.is_cut = true;
                return Some(kept);
            };
            self.budget = budget;
            let start = at.checked_sub(2 * chunk::OVERHEAD_BYTES)?;
            let words = read_present(self.memory, start, 24)?;
            let word = |offset| word_at(&words, offset);
            let (below, head, link) = (word(0)?, word(8)?, word(16)?);
            let bytes = head & !chunk::FLAGS;
            if !at.is_multiple_of(chunk::ALIGNMENT) || !(least..sizes.end).contains(&bytes) {
                return None;
            }
            let (start, end) = match head & chunk::IS_MMAPPED {
                0 => (start, start + bytes),
                _ if self.layout.mapped_header_bytes == 0 => return None,
                _ => range_of(start, below, head, self.layout.mapped_header_bytes)?,
            };
            kept.chunks += 1;
            kept.mapped_chunks += u64::from(head & chunk::IS_MMAPPED != 0);
            kept.bytes += end - start;
            kept.resident_bytes +=
                Presence::of(self.memory, start, end)?.resident_bytes(start, end);
            least = bytes;
            at = link ^ at >> 12;
        }
        (at == 0).then_some(kept)
    }
}

fn slot(address: u64) -> usize {
    (address / PAGE_BYTES) as usize % KEPT_PAGES
}
