//! The main arena if it is mapped: all of it with huge pages of hugetlbfs (glibc.malloc.hugetlb=2), whether there are such pages or not; in part
//! if something lies in the way of the program break, as run times with compilers put it there by chance. No list has its parts. Each except the
//! one with the top ends in two markers, chunks of 16 bytes, and begins where the one before ended.

use super::find::ArenaState;
use super::heaps::{Segment, presence_of};
use super::layout::chunk;
use crate::areas::{Area, Backing};
use crate::memory::{Memory, PAGE_BYTES, read_present, word_at};

/// Bytes of the two markers.
const MARKER_BYTES: u64 = 32;
/// Pages whose ends are looked at at once.
const BATCH: usize = 1 << 12;

// Hazard, never seen: every present page of anonymous memory is looked at, 0.2 s for each GiB. A Java heap of 100 GiB with something in the way
// of its program break would take 20 s.
/// The parts, by address.
pub fn segments(memory: &impl Memory, areas: &[Area], state: &ArenaState) -> Vec<Segment> {
    let mut segments = Vec::new();
    for area in areas.iter().filter(|area| is_searched(area)) {
        let mut start = area.start;
        for end in ends(memory, area, state) {
            if let Some(first) = first_chunk(memory, area, start, end) {
                segments.extend(segment(memory, areas, state, first, end));
            }
            start = end;
        }
    }
    segments
}

fn is_searched(area: &Area) -> bool {
    let may_be_it = area.backing() == Backing::Anonymous || area.is_huge();
    may_be_it && area.is_writable() && !area.path.starts_with("[stack")
}

/// Returns the ends of parts: the ends of markers, and the end of the top.
fn ends(memory: &impl Memory, area: &Area, state: &ArenaState) -> Vec<u64> {
    let mut pages = Vec::new();
    memory.present_runs(area.start, area.end, &mut |from, to| {
        pages.extend((from..to.min(area.end)).step_by(PAGE_BYTES as usize));
    });
    let mut ends = Vec::new();
    for pages in pages.chunks(BATCH) {
        let places: Vec<u64> = pages.iter().map(|page| page + PAGE_BYTES - MARKER_BYTES).collect();
        for (place, head) in places.iter().zip(memory.heads(&places)) {
            let marker = chunk::ALIGNMENT | chunk::PREV_INUSE;
            // In front of the first one may be a free chunk.
            if head.is_some_and(|head| head[1] | chunk::PREV_INUSE == marker && head[3] == marker) {
                ends.push(place + MARKER_BYTES);
            }
        }
    }
    // The page behind the top's size may be absent.
    if area.contains(state.top())
        && let Some(size) = read_present(memory, state.top(), 16).and_then(|head| word_at(&head, 8))
    {
        ends.push(state.top().saturating_add(size & !chunk::FLAGS).min(area.end));
    }
    ends.sort_unstable();
    ends
}

/// The first page of `start..end` that begins with a chunk of the main arena's: before it may be what the program mapped.
fn first_chunk(memory: &impl Memory, area: &Area, start: u64, end: u64) -> Option<u64> {
    let mut found = None;
    memory.present_runs(start.max(area.start), end, &mut |from, to| {
        for page in (from..to).step_by(PAGE_BYTES as usize) {
            if found.is_some() {
                return;
            }
            let head = memory.heads(&[page])[0].map_or(0, |head| head[1]);
            let bytes = head & !chunk::FLAGS;
            let is_first = head & chunk::FLAGS == chunk::PREV_INUSE
                && bytes >= chunk::LEAST_BYTES
                && bytes.is_multiple_of(chunk::ALIGNMENT)
                && bytes <= end - page;
            found = is_first.then_some(page);
        }
    });
    found
}

fn segment(
    memory: &impl Memory,
    areas: &[Area],
    state: &ArenaState,
    start: u64,
    end: u64,
) -> Option<Segment> {
    let presence = presence_of(memory, areas, start, end)?;
    let top = Some(state.top()).filter(|top| (start..end).contains(top));
    Some(Segment { arena: 0, start, first_chunk: start, top, end, presence, is_main: true })
}
