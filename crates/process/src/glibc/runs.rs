//! Memory that a trim returns: a trim joins the chunks of fastbins with the free chunks next to them, then gives back the whole pages inside each
//! free chunk.

use super::heaps::Segment;
use super::layout::chunk;
use crate::memory::{PAGE_BYTES, Presence, page_of};

/// The whole pages inside of the free chunk or the run `start..end`: where they begin and end; none if they end before they begin.
pub fn whole_pages((start, end): (u64, u64)) -> (u64, u64) {
    ((start + chunk::TRIM_KEEPS_BYTES).next_multiple_of(PAGE_BYTES), page_of(end))
}

/// Those of them that lie in `part`: resident bytes.
pub fn page_bytes(presence: &Presence, run: (u64, u64), part: (u64, u64)) -> u64 {
    let (first, last) = whole_pages(run);
    let (first, last) = (first.max(part.0), last.min(page_of(part.1)));
    if first < last { presence.resident_bytes(first, last) } else { 0 }
}

/// The same of a run. One that ends at the top, or lies in one of the `tails` of heaps, becomes a part of the top, and only the main arena's is
/// returned.
pub fn run_page_bytes(
    segment: &Segment,
    tails: &[(u64, u64)],
    run: (u64, u64),
    part: (u64, u64),
) -> u64 {
    let is_at_top = segment.top == Some(run.1) || !within(tails, run.0, run.1).is_empty();
    let is_kept = is_at_top && !segment.is_main;
    if is_kept { 0 } else { page_bytes(&segment.presence, run, part) }
}

/// Joins neighbours that touch. `chunks` by address.
pub fn joined(chunks: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (start, end) in chunks {
        match runs.last_mut().filter(|last| last.1 == start) {
            Some(last) => last.1 = end,
            None => runs.push((start, end)),
        }
    }
    runs
}

/// Those of the ranges, which are sorted and apart, that touch `start..end`.
pub fn within(ranges: &[(u64, u64)], start: u64, end: u64) -> &[(u64, u64)] {
    let first = ranges.partition_point(|range| range.1 <= start);
    let last = ranges.partition_point(|range| range.0 < end);
    &ranges[first..last.max(first)]
}
