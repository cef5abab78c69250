//! One piece of a segment, walked from the first place from where sizes lead on.

use super::heaps::Segment;
use super::layout::chunk;
use crate::memory::{Memory, PAGE_BYTES, page_of, read_present, word_at};

/// A chunk whose state is not seen is in use if it is as large as this: free ones of its size are rare.
const LARGE_BYTES: u64 = 1024;
/// So many chunks that follow each other are no chance.
const PROOF_CHUNKS: f64 = 32.0;
/// So far beyond a piece a free chunk is looked for: pieces of so many bytes.
const MOST_PROOF_PIECES: u32 = 8;
const PROOF_PIECE_BYTES: u64 = 64 << 10;
/// From the marker behind the last chunk of a heap to the heap's end.
const MOST_MARKER_BYTES: u64 = 64;

/// A part of a segment without large free chunks.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    pub segment: &'a Segment,
    pub start: u64,
    pub end: u64,
    /// Whether a chunk starts at its start.
    pub has_chunk_at_start: bool,
}

/// What a walked piece holds: bytes, and parts of chunks.
#[derive(Clone, Copy, Default)]
pub struct Sums {
    pub walked: f64,
    pub walked_resident: f64,
    pub chunks: f64,
    pub free_chunks: f64,
    pub free: f64,
    pub free_resident: f64,
    pub free_pages: f64,
    pub largest_free: u64,
    /// Address of one of the free chunks; 0 if there is none.
    pub a_free_chunk: u64,
    /// The chunk behind it on its list; 0 if that was not seen.
    pub next_on_list: u64,
    /// Where the next chunk starts; 0 if that was not seen.
    pub next_chunk: u64,
}

impl Sums {
    pub fn add(&mut self, other: &Self) {
        self.walked += other.walked;
        self.walked_resident += other.walked_resident;
        self.chunks += other.chunks;
        self.free_chunks += other.free_chunks;
        self.free += other.free;
        self.free_resident += other.free_resident;
        self.free_pages += other.free_pages;
        self.largest_free = self.largest_free.max(other.largest_free);
    }

    pub fn add_in_use(&mut self, segment: &Segment, start: u64, end: u64) {
        self.walked += (end - start) as f64;
        self.walked_resident += segment.presence.resident_bytes(start, end) as f64;
    }
}

/// Reads a piece and adds up its chunks. Where sizes lead on from no place, it lies inside of a chunk in use.
pub fn walk_piece(memory: &impl Memory, piece: &Piece, buffer: &mut Vec<u8>) -> Sums {
    // Most often there is nothing to see, and only seldom did it change meanwhile.
    let tries: &[bool] = if piece.has_chunk_at_start { &[false, true] } else { &[false] };
    for &is_last_try in tries {
        let window = Window::of(memory, piece, buffer);
        let search = (piece.start.next_multiple_of(chunk::ALIGNMENT)..piece.end)
            .step_by(chunk::ALIGNMENT as usize);
        let known = Some(piece.start).filter(|_| piece.has_chunk_at_start);
        for start in known.into_iter().chain(search) {
            if let Some(mut found) = window.sums_from(start, is_last_try) {
                window.add_end_of_chunk_below(&mut found, start);
                return found;
            }
        }
    }
    let mut sums = Sums::default();
    sums.add_in_use(piece.segment, piece.start, piece.end);
    sums
}

/// Whether the chunks of a walked piece are no left-over sizes inside of others: one of them, or of those behind, is on a list.
pub fn is_proven(memory: &impl Memory, segment: &Segment, sums: &Sums) -> bool {
    let mut sums = *sums;
    let mut buffer = Vec::new();
    for _ in 0..MOST_PROOF_PIECES {
        if sums.a_free_chunk != 0 {
            return is_listed(memory, &sums);
        }
        let limit = segment.top.unwrap_or(segment.end);
        if sums.next_chunk == 0 || sums.next_chunk >= limit {
            return sums.next_chunk == limit;
        }
        let (start, has_chunk_at_start) = (sums.next_chunk, true);
        let end = (start + PROOF_PIECE_BYTES).min(limit);
        let piece = Piece { segment, start, end, has_chunk_at_start };
        let window = Window::of(memory, &piece, &mut buffer);
        let Some(next) = window.sums_from(start, false) else { return false };
        sums = next;
    }
    false
}

/// Whether the next chunk on the list of the free chunk that was seen refers back to it.
fn is_listed(memory: &impl Memory, sums: &Sums) -> bool {
    let word = |address: u64| word_at(&read_present(memory, address, 8)?, 0);
    let next = match sums.next_on_list {
        0 => word(sums.a_free_chunk + 2 * chunk::OVERHEAD_BYTES),
        next => Some(next),
    };
    let back = next.and_then(|next| next.checked_add(3 * chunk::OVERHEAD_BYTES)).and_then(word);
    back == Some(sums.a_free_chunk)
}

struct Window<'a> {
    piece: &'a Piece<'a>,
    /// Address of the first byte.
    start: u64,
    /// Zeros where a page is absent.
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// The piece's pages and one behind, where the next size may lie. No chunk has the size 0.
    fn of(memory: &impl Memory, piece: &'a Piece, bytes: &'a mut Vec<u8>) -> Self {
        let start = page_of(piece.start);
        let end = (page_of(piece.end + PAGE_BYTES - 1) + PAGE_BYTES)
            .min(page_of(piece.segment.end + PAGE_BYTES - 1));
        bytes.clear();
        bytes.resize((end - start) as usize, 0);
        piece.segment.presence.read_pages(memory, start, bytes);
        Self { piece, start, bytes }
    }

    fn word(&self, address: u64) -> Option<u64> {
        word_at(self.bytes, address.checked_sub(self.start)? as usize)
    }

    /// The chunk that ends at `start`, of which the piece has the end.
    fn add_end_of_chunk_below(&self, sums: &mut Sums, start: u64) {
        let bytes = start - self.piece.start;
        let words = self.word(start).zip(self.word(start + chunk::OVERHEAD_BYTES));
        let (below, head) = words.unwrap_or((0, chunk::PREV_INUSE));
        let is_free = head & chunk::PREV_INUSE == 0;
        if is_free && below >= bytes && bytes > 0 {
            self.add(sums, self.piece.start, start, true);
            self.note_free(sums, start.saturating_sub(below));
            // Only a part of it is in the piece.
            let part = bytes as f64 / below as f64 - 1.0;
            sums.chunks += part;
            sums.free_chunks += part;
        } else {
            sums.add_in_use(self.piece.segment, self.piece.start, start);
        }
    }

    /// The chunks from `start` on, if they lead to the end of the piece, or, where the program is changing it, are many.
    fn sums_from(&self, start: u64, is_changing: bool) -> Option<Sums> {
        let limit = self.piece.segment.top.unwrap_or(self.piece.segment.end);
        let mut sums = Sums::default();
        let (mut at, mut is_free_below) = (start, false);
        while at < self.piece.end && at < limit {
            let head = self.word(at + chunk::OVERHEAD_BYTES)?;
            let bytes = head & !chunk::FLAGS;
            let next = at.saturating_add(bytes);
            let is_marker = bytes < chunk::LEAST_BYTES
                && self.piece.segment.top.is_none()
                && at + MOST_MARKER_BYTES >= limit;
            if is_marker {
                break;
            }
            let is_chunk = bytes >= chunk::LEAST_BYTES
                && bytes.is_multiple_of(chunk::ALIGNMENT)
                && head & chunk::IS_MMAPPED == 0
                && !(self.piece.segment.is_main && head & chunk::NON_MAIN_ARENA != 0)
                && next <= limit;
            let state = if is_chunk { self.is_free(bytes, next, is_free_below) } else { None };
            match state {
                Some(Some(is_free)) => {
                    self.add(&mut sums, at, next, is_free);
                    is_free_below = is_free;
                    sums.next_chunk = next;
                }
                // It reaches beyond what was read.
                Some(None) => {
                    if bytes >= LARGE_BYTES {
                        self.add(&mut sums, at, next, false);
                    }
                    break;
                }
                None if is_changing && sums.chunks >= PROOF_CHUNKS => break,
                None => return None,
            }
            at = next;
        }
        Some(sums)
    }

    /// Whether the chunk of `bytes` below `next` is free; `Some(None)` where that was not read, `None` if there is none.
    fn is_free(&self, bytes: u64, next: u64, is_free_below: bool) -> Option<Option<bool>> {
        let is_read = self.piece.segment.presence.is_present(next);
        let words = self.word(next).zip(self.word(next + chunk::OVERHEAD_BYTES));
        let Some((below, next_head)) = words.filter(|_| is_read) else { return Some(None) };
        let is_free = next_head & chunk::PREV_INUSE == 0;
        // Free chunks that touch are joined at once: two of them are what was left behind inside of another chunk.
        let is_possible = !is_free || below == bytes && !is_free_below;
        is_possible.then_some(Some(is_free))
    }

    fn add(&self, sums: &mut Sums, start: u64, next: u64, is_free: bool) {
        let end = next.min(self.piece.end);
        let part = (end - start) as f64 / (next - start) as f64;
        sums.add_in_use(self.piece.segment, start, end);
        sums.chunks += part;
        if is_free {
            let presence = &self.piece.segment.presence;
            let first = (start + chunk::TRIM_KEEPS_BYTES).next_multiple_of(PAGE_BYTES);
            sums.free_chunks += part;
            sums.free += (end - start) as f64;
            sums.free_resident += presence.resident_bytes(start, end) as f64;
            sums.free_pages += presence.resident_bytes(first, page_of(end)) as f64;
            sums.largest_free = sums.largest_free.max(next - start);
            self.note_free(sums, start);
        }
    }

    fn note_free(&self, sums: &mut Sums, address: u64) {
        sums.a_free_chunk = address;
        sums.next_on_list = self.word(address + 2 * chunk::OVERHEAD_BYTES).unwrap_or(0);
    }
}
