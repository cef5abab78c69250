//! Where threads' stacks are, also of threads that run: by the thread's descriptor at the end of each.

use crate::mappings::{Backing, Mapping};
use crate::memory::{Memory, PAGE_BYTES, read_present, word_at};

/// The descriptor lies in these last pages of a stack; static thread-local storage lies below it.
const SEARCHED_PAGES: u64 = 2;

/// Starts of the mappings that are stacks of threads made by the C library: behind a guard that nobody may touch, with a descriptor that
/// points to itself (x86-64 psABI: the word at the thread pointer is the thread pointer; glibc's `tcbhead_t` repeats it 16 bytes on).
pub fn thread_stacks(memory: &impl Memory, mappings: &[Mapping]) -> Vec<u64> {
    let has_guard = |pair: &&[Mapping]| {
        pair[0].end == pair[1].start
            && pair[0].permissions.starts_with("---")
            && pair[1].is_writable()
            && pair[1].backing() == Backing::Anonymous
            && pair[1].rss > 0
    };
    let stacks = mappings.windows(2).filter(has_guard).map(|pair| &pair[1]);
    stacks.filter(|stack| has_descriptor(memory, stack)).map(|stack| stack.start).collect()
}

fn has_descriptor(memory: &impl Memory, stack: &Mapping) -> bool {
    let first = stack.end.saturating_sub(SEARCHED_PAGES * PAGE_BYTES).max(stack.start);
    (first..stack.end).step_by(PAGE_BYTES as usize).any(|page| {
        let Some(bytes) = read_present(memory, page, PAGE_BYTES as usize) else { return false };
        (0..bytes.len() - 16).step_by(16).any(|offset| {
            let own = page + offset as u64;
            word_at(&bytes, offset) == Some(own) && word_at(&bytes, offset + 16) == Some(own)
        })
    })
}
