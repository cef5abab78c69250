//! Free memory that touches a block: while the block is there, the free chunks on both sides cannot join.
//!
//! Every free chunk lies between two that are not free, and each of these counts for half of it: the
//! sum over all blocks is what is free, and a sample of them estimates what each call site pins.

use super::layout::chunk;
use super::statistics::Statistics;
use crate::memory::Memory;
use borsh::{BorshDeserialize, BorshSerialize};

/// Resident free bytes that touch a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Beside {
    /// In the free chunk below.
    pub below_bytes: u64,
    /// In the free chunk above; the top is none.
    pub above_bytes: u64,
}

impl Beside {
    /// The half of each that counts for this block.
    pub fn held_bytes(&self) -> f64 {
        (self.below_bytes + self.above_bytes) as f64 / 2.0
    }
}

/// Returns the free memory that touches the block at `address`; `None` if the block lies in no arena, or its surroundings are no chunks.
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
        beside.below_bytes = range.presence.resident_bytes(start, chunk_start);
    }
    let behind = words(next).and_then(|(_, head)| next.checked_add(head & !chunk::FLAGS));
    if let Some(behind) = behind.filter(|&behind| behind < range.end)
        && let Some((below, head)) = words(behind)
        && head & chunk::PREV_INUSE == 0
        && below == behind - next
    {
        beside.above_bytes = range.presence.resident_bytes(next, behind);
    }
    Some(beside)
}
