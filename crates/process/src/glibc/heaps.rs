//! The ranges of memory in which an arena's chunks lie.

use super::find::{ArenaState, Parameters};
use super::layout::{HEAP_BYTES, Layout, arena, chunk};
use super::mapped_main;
use crate::areas::{Area, area_at};
use crate::memory::{Memory, Presence, read_present, word_at};
use std::collections::HashSet;

/// Heaps of one arena followed at most: 64 TiB.
const MOST_HEAPS: usize = 1 << 20;
/// Sizes that they have on x86-64.
const HUGE_PAGES: [u64; 2] = [2 << 20, 1 << 30];

/// A contiguous run of chunks.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The arena's index.
    pub arena: usize,
    /// The first byte that belongs to the arena: of the heap's header, or the first chunk.
    pub start: u64,
    /// The first chunk.
    pub first_chunk: u64,
    /// The top chunk, if it lies here; else chunks end with a marker.
    pub top: Option<u64>,
    /// The first byte that does not belong to the arena any more.
    pub end: u64,
    /// Its pages.
    pub presence: Presence,
    /// Whether chunks must not carry the mark of other arenas.
    pub is_main: bool,
}

impl Segment {
    /// Returns the end of the segment's chunks: the top, or the end of the segment.
    pub fn limit(&self) -> u64 {
        self.top.unwrap_or(self.end)
    }

    /// Resident bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.presence.resident_bytes(self.start, self.end)
    }
}

/// The segments of the arena with this index; the first is the main one. Segments that could not be found are missing from the sum of their
/// bytes.
pub fn segments(
    memory: &impl Memory,
    areas: &[Area],
    state: &ArenaState,
    index: usize,
    layout: &Layout,
    parameters: &Parameters,
) -> Vec<Segment> {
    if state.is_empty() {
        return Vec::new();
    }
    if index == 0 {
        let at_break = || main_segment(memory, state, parameters);
        return match at_break().filter(|_| parameters.huge_page_bytes == 0) {
            Some(segment) => vec![segment],
            None => mapped_main::segments(memory, areas, state),
        };
    }
    let has_huge_pages =
        layout.has_heaps_of_huge_pages && HUGE_PAGES.contains(&parameters.huge_page_bytes);
    let heap_bytes = if has_huge_pages { 4 * parameters.huge_page_bytes } else { HEAP_BYTES };
    let mut segments: Vec<Segment> = Vec::new();
    let mut known = HashSet::new();
    let mut heap = state.top() & !(heap_bytes - 1);
    // The list may be made to lead back to itself.
    while heap != 0 && segments.len() < MOST_HEAPS && known.insert(heap) {
        let Some(header) = read_present(memory, heap, 24) else { break };
        let word = |offset| word_at(&header, offset).unwrap_or(0);
        let (owner, previous, bytes) = (word(0), word(8), word(16));
        if owner != state.address || bytes > heap_bytes || !heap.is_multiple_of(heap_bytes) {
            break;
        }
        let mut first_chunk = heap + layout.heap_header_bytes;
        if first_chunk == state.address {
            first_chunk += ((layout.top + arena::BYTES) as u64).next_multiple_of(chunk::ALIGNMENT);
        }
        let end = heap + bytes;
        let Some(presence) = presence_of(memory, areas, heap, end) else { break };
        let top = segments.is_empty().then(|| state.top());
        segments.push(Segment {
            arena: index,
            start: heap,
            first_chunk,
            top,
            end,
            presence,
            is_main: false,
        });
        heap = previous;
    }
    segments
}

/// Returns the presence of pages of an area, which may be of hugetlbfs.
pub fn presence_of(memory: &impl Memory, areas: &[Area], start: u64, end: u64) -> Option<Presence> {
    let presence = Presence::of(memory, start, end)?;
    let is_huge = area_at(areas, start).is_some_and(|area| area.hugetlb > 0);
    Some(if is_huge { presence.outside_rss() } else { presence })
}

/// The main arena's memory at the program break; `None`: the arena has gone on elsewhere.
fn main_segment(
    memory: &impl Memory,
    state: &ArenaState,
    parameters: &Parameters,
) -> Option<Segment> {
    let start = parameters.sbrk_base;
    let top = state.top();
    if start == 0 || top < start {
        return None;
    }
    let head = word_at(&read_present(memory, top, 16)?, 8)?;
    let end = top.checked_add(head & !chunk::FLAGS)?;
    if end - start > state.system_bytes().saturating_mul(2) {
        return None;
    }
    let first_chunk = start.next_multiple_of(chunk::ALIGNMENT);
    let presence = Presence::of(memory, start, end)?;
    Some(Segment { arena: 0, start, first_chunk, top: Some(top), end, presence, is_main: true })
}
