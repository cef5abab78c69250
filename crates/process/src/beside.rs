//! Free memory that blocks of a process pin.

use crate::asked::{BESIDE, MOST_BYTES};
use crate::glibc::{self, Beside, Statistics};
use crate::process_memory::ProcessMemory;
use ramson_apart::Failure;

/// Returns the free memory that each of these blocks pins, as `glibc::beside` does; `None` for a block of which nothing is known.
pub fn beside(
    memory: &ProcessMemory,
    statistics: &Statistics,
    blocks: &[u64],
) -> Vec<Option<Beside>> {
    let ProcessMemory::Theirs(by, pid) = memory else {
        return all_beside(memory, statistics, blocks);
    };
    let found: Result<Vec<Option<Beside>>, Failure> =
        by.ask_for(BESIDE, &(pid, &statistics.ranges, blocks));
    let is_bytes = |it: &Beside| it.below_bytes <= MOST_BYTES && it.above_bytes <= MOST_BYTES;
    let is_answer = |found: &Vec<Option<Beside>>| {
        found.len() == blocks.len() && found.iter().flatten().all(is_bytes)
    };
    found.ok().filter(is_answer).unwrap_or_else(|| vec![None; blocks.len()])
}

/// The same, read by this process.
pub fn all_beside(
    memory: &ProcessMemory,
    statistics: &Statistics,
    blocks: &[u64],
) -> Vec<Option<Beside>> {
    blocks.iter().map(|&block| glibc::beside(memory, statistics, block)).collect()
}
