//! Chunks that were mapped one by one because they are large (`M_MMAP_THRESHOLD`): live memory outside the arenas.

use super::heaps::{Segment, presence_of};
use super::layout::chunk;
use super::statistics::{Range, Space};
use crate::areas::{Area, Backing};
use crate::memory::{Memory, PAGE_BYTES, Presence, page_of, word_at};
use std::sync::Arc;

/// In the word before the size of a chunk whose size leaves its header out: it was mapped with huge pages.
const HUGE_PAGES: u64 = 1;

/// Pages of areas searched beyond their first chunks.
const MOST_SEARCHED_PAGES: u32 = 1 << 18;
/// Pages read at once where every page is tried.
const WINDOW_PAGES: u64 = 16;
/// Most bytes of all areas that are searched, whether touched or not: the presence that is kept of each takes memory.
const MOST_AREA_BYTES: u64 = 1 << 40;

/// Figures of these chunks in the allocator's own statistics.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub chunks: u64,
    pub bytes: u64,
    /// Bytes of a chunk that its size leaves out. If this is not 0, `bytes` may be too many.
    pub header_bytes: u64,
}

impl Expected {
    /// Whether what was found is it.
    pub fn are_met_by(&self, found: &Space) -> bool {
        found.chunks == self.chunks && self.excess_of(found.bytes) == Some(0)
    }

    /// How many of `bytes` are too many.
    fn excess_of(&self, bytes: u64) -> Option<u64> {
        match self.header_bytes {
            0 => bytes.checked_sub(self.bytes),
            _ => Some(bytes.saturating_sub(page_of(self.bytes))),
        }
    }
}

/// Result of the search.
#[derive(Debug, Default)]
pub struct MappedChunks {
    pub ranges: Vec<Range>,
    pub space: Space,
    /// Ranges that neither begin an area nor follow another one: memory of the program's may look like that.
    doubtful: Vec<usize>,
}

/// Searches the anonymous areas outside of `segments`. If the chains of chunks from each area's start are not what is expected,
/// page after page is tried, and one chunk that is then too much is dropped.
pub fn find(
    memory: &impl Memory,
    areas: &[Area],
    segments: &[&Segment],
    expected: Expected,
) -> MappedChunks {
    let runs = runs(areas, segments, expected.bytes);
    let mut mapped = MappedChunks::default();
    let mut searched = 0;
    for is_thorough in [false, true] {
        mapped = MappedChunks::default();
        let mut left_bytes = MOST_AREA_BYTES;
        for run in &runs {
            let (start, end) = (run[0].start, run[run.len() - 1].end);
            let Some(left) = left_bytes.checked_sub(end - start) else { continue };
            left_bytes = left;
            let Some(presence) = presence_of(memory, areas, start, end).map(Arc::new) else {
                continue;
            };
            let window_pages = if is_thorough { WINDOW_PAGES } else { 1 };
            let mut headers =
                Headers { memory, presence: &presence, end, window_pages, window: (0, Vec::new()) };
            let mut at = start;
            for part in run.iter().filter(|part| part.may_begin_a_chunk) {
                at = at.max(part.start);
                let mut is_chained = true;
                while at < part.end && searched < MOST_SEARCHED_PAGES {
                    let last = at + PAGE_BYTES - 2 * chunk::OVERHEAD_BYTES;
                    let chunk = headers
                        .chunk_at(at, expected)
                        .or_else(|| headers.chunk_at(last, expected).filter(|_| is_thorough))
                        .filter(|&(from, _)| from >= part.start);
                    searched += u32::from(chunk.is_none());
                    match chunk {
                        Some((from, to)) => mapped.add(&presence, from, to, is_chained),
                        None if !is_thorough => break,
                        None => {}
                    }
                    is_chained = chunk.is_some();
                    at = chunk.map_or(at + PAGE_BYTES, |(_, to)| to);
                }
            }
        }
        if expected.are_met_by(&mapped.space) {
            break;
        }
    }
    mapped.drop_stray(expected);
    mapped
}

/// A part of an area that no segment covers.
struct Part {
    start: u64,
    end: u64,
    is_huge: bool,
    may_begin_a_chunk: bool,
}

/// The parts of the anonymous areas outside of `segments`, those that adjoin together: the kernel splits an area where a part of it is
/// advised (`MADV_HUGEPAGE`) or protected otherwise, and the chunk that it holds lies in several then. A part that nothing has touched is
/// of a chunk only if it is no longer than all chunks together.
fn runs(areas: &[Area], segments: &[&Segment], most_bytes: u64) -> Vec<Vec<Part>> {
    let mut runs: Vec<Vec<Part>> = Vec::new();
    let is_anonymous = |area: &&Area| area.backing() == Backing::Anonymous && area.path != "[heap]";
    for area in areas.iter().filter(|area| is_anonymous(area) || area.is_huge()) {
        let is_huge = area.is_huge();
        let is_touched = if is_huge { area.hugetlb > 0 } else { area.rss > 0 };
        for (start, end) in outside(area, segments) {
            if !is_touched && (is_huge || !area.is_writable() || end - start > most_bytes) {
                continue;
            }
            let may_begin_a_chunk = is_touched && area.is_writable();
            let part = Part { start, end, is_huge, may_begin_a_chunk };
            let last = runs.last_mut();
            match last.filter(|run| run.last().is_some_and(|last| last.adjoins(&part))) {
                Some(run) => run.push(part),
                None => runs.push(vec![part]),
            }
        }
    }
    runs.retain(|run| run.iter().any(|part| part.may_begin_a_chunk));
    runs
}

impl Part {
    fn adjoins(&self, next: &Self) -> bool {
        self.end == next.start && self.is_huge == next.is_huge
    }
}

/// The parts of an area that no segment covers; segments by address.
fn outside(area: &Area, segments: &[&Segment]) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    let mut at = area.start;
    let first = segments.partition_point(|segment| segment.end <= area.start);
    let within = segments[first..].iter().take_while(|segment| segment.start < area.end);
    for segment in within {
        parts.push((at, page_of(segment.start)));
        at = segment.end.next_multiple_of(PAGE_BYTES);
    }
    parts.push((at, area.end));
    parts.retain(|(start, end)| start < end);
    parts
}

impl MappedChunks {
    fn add(&mut self, presence: &Arc<Presence>, start: u64, end: u64, is_chained: bool) {
        if !is_chained {
            self.doubtful.push(self.ranges.len());
        }
        self.space.add(presence, start, end);
        self.ranges.push(Range { start, end, presence: presence.clone() });
    }

    // Hazard, never seen: a program has, in anonymous memory of its own, two or more pages that look like the start of such a chunk. No such page
    // is dropped: the pages count as live, and `ramson explain` says that it found more than malloc counts.
    /// Drops one without which the rest is what the statistics say.
    fn drop_stray(&mut self, expected: Expected) {
        let excess = expected.excess_of(self.space.bytes).filter(|&bytes| bytes > 0);
        let is_stray = |&&index: &&usize| {
            let range = &self.ranges[index];
            Some(range.end - range.start) == excess
        };
        let stray = self.doubtful.iter().rev().find(is_stray).copied();
        if let Some(stray) = stray.filter(|_| self.space.chunks == expected.chunks + 1) {
            let Range { start, end, presence } = self.ranges.remove(stray);
            self.space.chunks -= 1;
            self.space.bytes -= end - start;
            self.space.resident_bytes -= presence.resident_bytes(start, end);
        }
    }
}

/// Headers of chunks in one run of areas, read by whole pages.
struct Headers<'a, M> {
    memory: &'a M,
    presence: &'a Presence,
    end: u64,
    /// Pages of the window at most.
    window_pages: u64,
    /// The pages that were read last, and their address.
    window: (u64, Vec<u8>),
}

impl<M: Memory> Headers<'_, M> {
    /// Start and end of the area whose chunk's header is at `head`, which may be behind its start (alignment).
    fn chunk_at(&mut self, head: u64, expected: Expected) -> Option<(u64, u64)> {
        let (below, size) = self.words(head)?;
        let range = range_of(head, below, size, expected.header_bytes)?;
        let is_chunk = size & chunk::FLAGS == chunk::IS_MMAPPED
            && range.0.is_multiple_of(PAGE_BYTES)
            && range.1.is_multiple_of(PAGE_BYTES)
            && size + expected.header_bytes > PAGE_BYTES
            && range.1 <= self.end;
        is_chunk.then_some(range)
    }

    /// The two words at `at`, which lie on one page.
    fn words(&mut self, at: u64) -> Option<(u64, u64)> {
        let (start, bytes) = &mut self.window;
        if !(*start..*start + bytes.len() as u64).contains(&at) {
            *start = page_of(at);
            let pages = self.presence.present_run(*start, self.end, self.window_pages);
            bytes.resize((pages * PAGE_BYTES) as usize, 0);
            if !self.memory.read(*start, bytes) {
                bytes.clear();
            }
        }
        let offset = (at - *start) as usize;
        word_at(bytes, offset).zip(word_at(bytes, offset + 8))
    }
}

/// Start and end of the area of the chunk at `at`, by the two words of its header.
pub fn range_of(at: u64, below: u64, size: u64, header_bytes: u64) -> Option<(u64, u64)> {
    let below = if header_bytes == 0 { below } else { below & !HUGE_PAGES };
    let end = at.checked_add(size & !chunk::FLAGS)?.checked_add(header_bytes)?;
    Some((at.checked_sub(below)?, end))
}
