//! What free memory touches a block: as long as it is there, the free chunks below and above it
//! cannot join, nor the last one fall to the top.
//!
//! Every free chunk lies between two that are not free. Each of them is counted for one half of it,
//! so that the sum over all blocks is what is free, and a sample of the blocks estimates what each
//! call site pins.

use super::layout::chunk;
use super::statistics::Statistics;
use crate::memory::{Memory, Presence, word_at};

/// Resident free bytes that touch a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// What touches the block at `address`; `None` if it lies in no arena, or its surroundings are no chunks.
pub fn beside(memory: &impl Memory, statistics: &Statistics, address: u64) -> Option<Beside> {
    let behind = statistics.ranges.partition_point(|range| range.start <= address);
    let range = statistics.ranges.get(behind.checked_sub(1)?)?;
    let chunk_start = address.checked_sub(2 * chunk::OVERHEAD_BYTES)?;
    if address >= range.end || !address.is_multiple_of(chunk::ALIGNMENT) {
        return None;
    }
    let (below, head) = head(memory, &range.presence, chunk_start)?;
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
    let Some((_, next_head)) = self::head(memory, &range.presence, next) else {
        return Some(beside);
    };
    let behind = next.checked_add(next_head & !chunk::FLAGS).filter(|&behind| behind < range.end);
    let Some(behind) = behind else { return Some(beside) };
    if let Some((below, head)) = self::head(memory, &range.presence, behind)
        && head & chunk::PREV_INUSE == 0
        && below == behind - next
    {
        beside.above_bytes = range.presence.resident_bytes(next, behind);
    }
    Some(beside)
}

/// The two words in front of a block.
fn head(memory: &impl Memory, presence: &Presence, chunk_start: u64) -> Option<(u64, u64)> {
    let end = chunk_start.checked_add(2 * chunk::OVERHEAD_BYTES)?;
    // A size that is torn may lead to two words on two pages.
    if !presence.is_present(chunk_start) || !presence.is_present(end - 1) {
        return None;
    }
    let mut words = [0; 16];
    if !memory.read(chunk_start, &mut words) {
        return None;
    }
    word_at(&words, 0).zip(word_at(&words, 8))
}
