//! Where threads' stacks are, also of threads that run: by the thread's descriptor at the end of each.

use crate::mappings::{Backing, Mapping};
use crate::memory::{Memory, PAGE_BYTES, page_of, read_present, word_at};

/// The descriptor lies in these last pages of a stack; static thread-local storage lies below it.
const SEARCHED_PAGES: u64 = 2;

/// Thread-local storage of libraries that is searched, below the descriptor.
const SEARCHED_STORAGE_BYTES: u64 = 4 * PAGE_BYTES;

/// Starts of the mappings that are stacks of threads made by the C library: behind a guard that nobody may touch, with a descriptor that
/// points to itself (x86-64 psABI: the word at the thread pointer is the thread pointer; glibc's `tcbhead_t` repeats it 16 bytes on).
pub fn thread_stacks(memory: &impl Memory, mappings: &[Mapping]) -> Vec<u64> {
    descriptors(memory, mappings).map(|(stack, _)| stack.start).collect()
}

/// Whatever the threads' variables may refer to as a block: the chunks below.
pub fn thread_pointers(memory: &impl Memory, mappings: &[Mapping]) -> Vec<u64> {
    let mut chunks = Vec::new();
    for (stack, descriptor) in descriptors(memory, mappings) {
        let first = descriptor.saturating_sub(SEARCHED_STORAGE_BYTES).max(stack.start);
        let mut page = page_of(first);
        while page < descriptor {
            let bytes = read_present(memory, page, PAGE_BYTES as usize).unwrap_or_default();
            let words = bytes.chunks_exact(8).filter_map(|word| word_at(word, 0));
            chunks.extend(
                words
                    .filter(|word| word.is_multiple_of(16))
                    .filter_map(|word| word.checked_sub(16).filter(|_| word > PAGE_BYTES)),
            );
            page += PAGE_BYTES;
        }
    }
    chunks
}

fn descriptors<'a>(
    memory: &impl Memory,
    mappings: &'a [Mapping],
) -> impl Iterator<Item = (&'a Mapping, u64)> {
    let has_guard = |pair: &&[Mapping]| {
        pair[0].end == pair[1].start
            && pair[0].permissions.starts_with("---")
            && pair[1].is_writable()
            && pair[1].backing() == Backing::Anonymous
            && pair[1].rss > 0
    };
    let stacks = mappings.windows(2).filter(has_guard).map(|pair| &pair[1]);
    stacks.filter_map(|stack| Some((stack, descriptor(memory, stack)?)))
}

fn descriptor(memory: &impl Memory, stack: &Mapping) -> Option<u64> {
    let first = stack.end.saturating_sub(SEARCHED_PAGES * PAGE_BYTES).max(stack.start);
    (first..stack.end).step_by(PAGE_BYTES as usize).find_map(|page| {
        let bytes = read_present(memory, page, PAGE_BYTES as usize)?;
        (0..bytes.len() - 16).step_by(16).find_map(|offset| {
            let own = page + offset as u64;
            let is_it =
                word_at(&bytes, offset) == Some(own) && word_at(&bytes, offset + 16) == Some(own);
            is_it.then_some(own)
        })
    })
}
