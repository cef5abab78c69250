//! Walks the chunks of a segment, from size to size, while the program may be changing them.
//!
//! If a size makes no sense, the walk goes back some chunks and reads again; after some tries it looks for the next place from where sizes
//! lead on, and what lies between counts as not walked. A chunk is passed on only when those behind it made sense too.

use super::heaps::Segment;
use super::layout::chunk;
use crate::memory::{Memory, PAGE_BYTES, page_of, word_at};

/// Pages read at once where chunks follow each other closely.
const MOST_WINDOW_PAGES: u64 = 64;
/// Chunks to go back at each try to read one place again.
const STEPS_BACK: [usize; 4] = [1, 8, 64, 512];
/// Places per segment from where the walk starts anew.
const MOST_GAPS: u32 = 4096;
/// Bytes searched for such places in a segment.
const MOST_SEARCHED_BYTES: u64 = 256 << 20;
/// Number of sizes that must lead on from such a place.
const PROOF_CHUNKS: u32 = 32;
/// Chunks that wait for the ones behind them to prove right.
const PENDING_CHUNKS: usize = 16_384;

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Address of the chunk: the block that the program has starts 16 bytes later.
    pub address: u64,
    /// From it to the next chunk.
    pub bytes: u64,
    /// Whether it lies in a bin. Chunks in fastbins and tcaches do not.
    pub is_free: bool,
}

/// How far a walk came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// End of the walk: the top chunk or the marker at the end, if the walk is whole.
    pub end: u64,
    /// Whether it came to the end of the chunks.
    pub is_whole: bool,
    /// Ranges below the end that were left out.
    pub gaps: Vec<(u64, u64)>,
}

/// Why a step was not possible.
enum Stop {
    /// At the top chunk or the marker at the end.
    End,
    /// At what is no chunk.
    Torn,
}

/// Passes every chunk below the top to `visit`.
pub fn walk(memory: &impl Memory, segment: &Segment, mut visit: impl FnMut(Chunk)) -> Walked {
    let mut walker = Walker { memory, segment, window: Window::default(), searched_bytes: 0 };
    let mut walked = Walked { end: segment.first_chunk, ..Walked::default() };
    let mut pending: Vec<Chunk> = Vec::with_capacity(PENDING_CHUNKS);
    // The furthest place that made no sense, and how often it did not.
    let (mut furthest, mut tries) = (0, 0);
    loop {
        match walker.step(walked.end) {
            Ok(found) => {
                if pending.len() == PENDING_CHUNKS {
                    pending.drain(..PENDING_CHUNKS / 2).for_each(&mut visit);
                }
                pending.push(found);
                walked.end = found.address + found.bytes;
                continue;
            }
            Err(Stop::End) => walked.is_whole = true,
            Err(Stop::Torn) => {
                if walked.end > furthest {
                    (furthest, tries) = (walked.end, 0);
                }
                walker.window = Window::torn();
                if let Some(back) = STEPS_BACK.get(tries) {
                    tries += 1;
                    let kept = pending.len().saturating_sub(*back);
                    walked.end = pending.get(kept).map_or(walked.end, |chunk| chunk.address);
                    pending.truncate(kept);
                    continue;
                }
                if walked.gaps.len() < MOST_GAPS as usize
                    && let Some(next) = walker.next_proven(walked.end)
                {
                    walked.gaps.push((walked.end, next));
                    // Pending chunks lie below the gap: the walk must not go back across the gap.
                    pending.drain(..).for_each(&mut visit);
                    walked.end = next;
                    continue;
                }
            }
        }
        pending.into_iter().for_each(visit);
        return walked;
    }
}

#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    pages: u64,
}

impl Window {
    /// To be read anew, and much at once: the fewer moments, the less can change between them.
    fn torn() -> Self {
        Self { start: u64::MAX, bytes: Vec::new(), pages: MOST_WINDOW_PAGES }
    }
}

struct Walker<'a, M> {
    memory: &'a M,
    segment: &'a Segment,
    window: Window,
    searched_bytes: u64,
}

impl<M: Memory> Walker<'_, M> {
    /// The chunk at `at`; whether it is free, the next one tells.
    #[inline]
    fn step(&mut self, at: u64) -> Result<Chunk, Stop> {
        if Some(at) == self.segment.top {
            return Err(Stop::End);
        }
        let (_, head) = self.head(at).ok_or(Stop::Torn)?;
        let bytes = head & !chunk::FLAGS;
        let end = self.segment.end;
        if bytes < chunk::LEAST_BYTES {
            // Behind the last chunk of a heap: a marker of 16 bytes or of none. Behind that of the main arena may be foreign memory.
            let is_end = self.segment.top.is_none() && at + bytes.max(16) <= end && at + 64 >= end;
            return Err(if is_end { Stop::End } else { Stop::Torn });
        }
        let limit = self.segment.top.unwrap_or(end);
        let next = at.checked_add(bytes).filter(|&next| next <= limit).ok_or(Stop::Torn)?;
        let is_foreign = head & chunk::IS_MMAPPED != 0
            || self.segment.is_main && head & chunk::NON_MAIN_ARENA != 0;
        if is_foreign || !bytes.is_multiple_of(chunk::ALIGNMENT) || next == end {
            return Err(Stop::Torn);
        }
        let (below, next_head) = self.head(next).ok_or(Stop::Torn)?;
        let is_free = next_head & chunk::PREV_INUSE == 0;
        if is_free && below != bytes {
            return Err(Stop::Torn);
        }
        Ok(Chunk { address: at, bytes, is_free })
    }

    /// The first place behind `at` from where sizes lead on, or to the end.
    fn next_proven(&mut self, at: u64) -> Option<u64> {
        let limit = self.segment.top.unwrap_or(self.segment.end);
        let mut start = at + chunk::ALIGNMENT;
        while start < limit && self.searched_bytes < MOST_SEARCHED_BYTES {
            let is_present = self.segment.presence.is_present(start);
            if is_present && self.is_proven(start) {
                return Some(start);
            }
            // A present page that cannot be read is skipped: most likely the process is gone.
            let is_read = is_present && !self.window.bytes.is_empty();
            let step = if is_read { chunk::ALIGNMENT } else { PAGE_BYTES - start % PAGE_BYTES };
            self.searched_bytes += if is_present { step } else { chunk::ALIGNMENT };
            start += step;
        }
        None
    }

    fn is_proven(&mut self, start: u64) -> bool {
        let mut at = start;
        for _ in 0..PROOF_CHUNKS {
            match self.step(at) {
                Ok(found) => at += found.bytes,
                Err(Stop::End) => return true,
                Err(Stop::Torn) => return false,
            }
        }
        true
    }

    /// The two words at `at`: the size of the chunk below if that is free, and the size with its flags.
    #[inline]
    fn head(&mut self, at: u64) -> Option<(u64, u64)> {
        let offset = at.wrapping_sub(self.window.start) as usize;
        match self.window.bytes.get(offset..offset.wrapping_add(16)) {
            Some(head) => word_at(head, 0).zip(word_at(head, 8)),
            None => self.head_slow(at),
        }
    }

    #[cold]
    fn head_slow(&mut self, at: u64) -> Option<(u64, u64)> {
        let page = page_of(at);
        let segment = self.segment;
        let window = &mut self.window;
        if !segment.presence.is_present(at) || at >= segment.end {
            return None;
        }
        // Behind a large chunk one page tells where the next is; where chunks are small, more at once is cheaper.
        let is_near = page == window.start.wrapping_add(window.bytes.len() as u64);
        let is_torn = window.start == u64::MAX;
        let pages = if is_near || is_torn { window.pages * 4 } else { 1 };
        window.pages =
            segment.presence.present_run(page, segment.end, pages.min(MOST_WINDOW_PAGES));
        window.bytes.resize((window.pages * PAGE_BYTES) as usize, 0);
        window.start = page;
        if !self.memory.read(page, &mut window.bytes) {
            window.bytes.clear();
        }
        let offset = (at - page) as usize;
        word_at(&window.bytes, offset).zip(word_at(&window.bytes, offset + 8))
    }
}
