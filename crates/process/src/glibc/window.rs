//! A copy of a piece's pages, and where the sizes in it lead.

use super::heaps::Segment;
use super::layout::chunk;
use super::sums::Piece;
use crate::memory::{HEAD_BYTES, Head, Memory, PAGE_BYTES, head_of, page_of, word_at};

/// From the marker behind the last chunk of a heap to the heap's end.
const MOST_MARKER_BYTES: u64 = 64;

/// Place to which the size of a chunk leads.
pub enum Step {
    /// `is_free` is `None` where the next chunk was not read.
    Chunk { next: u64, is_free: Option<bool> },
    /// The marker at the end of a heap.
    End,
    /// This is no chunk.
    Torn,
}

pub struct Window<'a> {
    segment: &'a Segment,
    /// Address of the first byte.
    start: u64,
    /// The first place where a chunk may start.
    pub start_of_chunks: u64,
    /// Zeros where a page is absent. No chunk has the size 0.
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// The piece's pages, one before, where a run of free chunks may begin, and one behind, where the next size may lie.
    pub fn of(memory: &impl Memory, piece: &Piece<'a>, bytes: &'a mut Vec<u8>) -> Self {
        let segment = piece.segment;
        let start_of_chunks = if piece.has_chunk_at_start {
            piece.start
        } else {
            piece.start.saturating_sub(PAGE_BYTES).max(segment.first_chunk)
        };
        let start = page_of(start_of_chunks);
        let end = (page_of(piece.end + PAGE_BYTES - 1) + PAGE_BYTES)
            .min(page_of(segment.end + PAGE_BYTES - 1));
        bytes.clear();
        bytes.resize((end - start) as usize, 0);
        segment.presence.read_pages(memory, start, bytes);
        Self { segment, start, start_of_chunks, bytes }
    }

    #[inline]
    pub fn word(&self, address: u64) -> Option<u64> {
        word_at(self.bytes, address.checked_sub(self.start)? as usize)
    }

    pub fn head(&self, at: u64) -> Option<Head> {
        let offset = at.checked_sub(self.start)? as usize;
        let bytes = self.bytes.get(offset..offset + HEAD_BYTES)?;
        Some(head_of(bytes))
    }

    /// The size of what may be a chunk at `at`, with its marks.
    #[inline]
    fn size(&self, at: u64) -> Option<(u64, u64)> {
        let head = self.word(at + chunk::OVERHEAD_BYTES)?;
        let bytes = head & !chunk::FLAGS;
        let is_possible = bytes >= chunk::LEAST_BYTES
            && bytes.is_multiple_of(chunk::ALIGNMENT)
            && head & chunk::IS_MMAPPED == 0
            && bytes <= self.segment.limit().saturating_sub(at)
            && !(self.segment.is_main && head & chunk::NON_MAIN_ARENA != 0);
        is_possible.then_some((bytes, head))
    }

    /// Whether the marks at both ends are those of a free chunk, as far as they were read.
    #[inline]
    pub fn may_be_free(&self, at: u64) -> bool {
        let Some((bytes, head)) = self.size(at) else { return false };
        let next = at + bytes;
        // Free chunks that touch are joined at once.
        head & chunk::PREV_INUSE != 0
            && self.word(next).is_none_or(|below| below == bytes)
            && self.word(next + 8).is_none_or(|next| next & chunk::PREV_INUSE == 0)
    }

    /// Returns the start of the free chunk below `at`, if there may be one that starts before `limit`.
    #[inline]
    pub fn start_below(&self, at: u64, limit: u64) -> Option<u64> {
        let (below, head) = self.word(at).zip(self.word(at + chunk::OVERHEAD_BYTES))?;
        let is_possible = head & chunk::PREV_INUSE == 0 && below.is_multiple_of(chunk::ALIGNMENT);
        let start = at.checked_sub(below).filter(|_| is_possible)?;
        (self.segment.first_chunk..limit).contains(&start).then_some(start)
    }

    pub fn step(&self, at: u64) -> Step {
        let Some((bytes, head)) = self.size(at) else {
            let is_marker =
                self.segment.top.is_none() && at + MOST_MARKER_BYTES >= self.segment.end;
            return if is_marker { Step::End } else { Step::Torn };
        };
        let next = at + bytes;
        let words = self.word(next).zip(self.word(next + 8));
        let is_read = self.segment.presence.is_present(next);
        let Some((below, next_head)) = words.filter(|_| is_read) else {
            return Step::Chunk { next, is_free: None };
        };
        let is_free = next_head & chunk::PREV_INUSE == 0;
        let is_possible = if is_free {
            below == bytes && head & chunk::PREV_INUSE != 0
        } else {
            self.segment.is_main || head & chunk::NON_MAIN_ARENA != 0
        };
        if is_possible { Step::Chunk { next, is_free: Some(is_free) } } else { Step::Torn }
    }

    /// From where the most chunks lead on to `target`, or beyond it where that is no chunk's start; how many. 0: from nowhere.
    pub fn longest(&self, from: u64, target: u64, is_chunk: bool) -> (u32, u64) {
        let from = from.next_multiple_of(chunk::ALIGNMENT);
        let count = (target.saturating_sub(from)).div_ceil(chunk::ALIGNMENT) as usize;
        // Chunks from each place to the target; 0: there is no way.
        let mut steps = vec![0u32; count];
        let mut best = (0, 0);
        for index in (0..count).rev() {
            let at = from + index as u64 * chunk::ALIGNMENT;
            let next = match self.step(at) {
                Step::Torn => continue,
                Step::End if is_chunk => continue,
                Step::End => target,
                Step::Chunk { next, .. } => next,
            };
            steps[index] = if next == target || next > target && !is_chunk {
                1
            } else if next > target {
                0
            } else {
                match steps[((next - from) / chunk::ALIGNMENT) as usize] {
                    0 => 0,
                    behind => behind + 1,
                }
            };
            if steps[index] > 0 && steps[index] >= best.0 {
                best = (steps[index], at);
            }
        }
        best
    }
}
