//! Free memory that shares pages with a block: while the block is there, no trim returns it.
//!
//! A free chunk lies between two that are not free. The whole pages inside of it are not pinned; what is left at each end counts for
//! the block there. A free chunk without a whole page counts half for each. So the sum over all blocks is what a trim leaves of free
//! chunks, and a sample of the blocks estimates what each call site pins.

use super::layout::chunk;
use super::runs::whole_pages;
use super::statistics::Statistics;
use crate::memory::{Memory, Presence};
use borsh::{BorshDeserialize, BorshSerialize};

/// Resident free bytes that a block pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Beside {
    /// Of the free chunk below.
    pub below_bytes: u64,
    /// Of the free chunk above; the top is none.
    pub above_bytes: u64,
}

impl Beside {
    /// The sum of both.
    pub fn held_bytes(&self) -> f64 {
        (self.below_bytes + self.above_bytes) as f64
    }
}

/// Returns what counts of the free chunk `start..end` for the block below it, and for the block above it.
fn left_by_trim(presence: &Presence, start: u64, end: u64) -> (u64, u64) {
    let (first, last) = whole_pages((start, end));
    if first < last {
        return (presence.resident_bytes(start, first), presence.resident_bytes(last, end));
    }
    let half = presence.resident_bytes(start, end) / 2;
    (half, half)
}

/// Returns the free memory that the block at `address` pins; `None` if the block lies in no arena, or its surroundings are no chunks.
pub fn beside(memory: &impl Memory, statistics: &Statistics, address: u64) -> Option<Beside> {
    let behind = statistics.ranges.partition_point(|range| range.start <= address);
    let range = statistics.ranges.get(behind.checked_sub(1)?)?;
    let chunk_start = address.checked_sub(2 * chunk::OVERHEAD_BYTES)?;
    if address >= range.end || !address.is_multiple_of(chunk::ALIGNMENT) {
        return None;
    }
    let words = |at| range.presence.words(memory, at);
    let (below, head) = words(chunk_start)?;
    let bytes = head & !chunk::FLAGS;
    let next = chunk_start.checked_add(bytes)?;
    if head & chunk::IS_MMAPPED != 0 || bytes < chunk::LEAST_BYTES || next >= range.end {
        return None;
    }
    let mut beside = Beside::default();
    if head & chunk::PREV_INUSE == 0 {
        let start = chunk_start.checked_sub(below).filter(|&start| start >= range.start)?;
        beside.below_bytes = left_by_trim(&range.presence, start, chunk_start).1;
    }
    let behind = words(next).and_then(|(_, head)| next.checked_add(head & !chunk::FLAGS));
    if let Some(behind) = behind.filter(|&behind| behind < range.end)
        && let Some((below, head)) = words(behind)
        && head & chunk::PREV_INUSE == 0
        && below == behind - next
    {
        beside.above_bytes = left_by_trim(&range.presence, next, behind).0;
    }
    Some(beside)
}
