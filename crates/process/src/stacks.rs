//! Finds threads' stacks, also of threads that run: by the thread's descriptor at the end of each stack.
//!
//! A guard lies below each. Since glibc 2.42 and Linux 6.13 it is no area of its own, and stacks that
//! touch are one area: there the loader's lists of threads tell, which it has since 2.34.

use crate::areas::{Area, Backing, area_at, bounded};
use crate::identify::base_name;
use crate::memory::{Memory, PAGE_BYTES, page_of, pages, read_present, word_at};
use crate::text;
use ramson_apart::proc;
use std::collections::BTreeSet;

/// The descriptor lies in these last pages of a stack; static thread-local storage lies below it.
const SEARCHED_PAGES: u64 = 2;

/// Thread-local storage of libraries that is searched, below the descriptor.
const SEARCHED_STORAGE_BYTES: u64 = 4 * PAGE_BYTES;

/// Offset of the list links in a descriptor (`struct pthread`): after its header, which has this size on x86-64 in every version.
const LINKS: u64 = 704;

/// Bytes of a descriptor, in every version that has it at the top of a stack.
const DESCRIPTOR_BYTES: usize = 2304;

/// Number of chunks, found in threads' variables, after which no other thread is searched.
const MOST_CHUNKS: usize = 1 << 22;

/// The loader's lists have that many threads at most.
const MOST_THREADS: usize = 1 << 17;

/// Starts, ascending, of the areas that are stacks made by the C library: behind a guard, or by its own lists.
pub fn thread_stacks(memory: &impl Memory, areas: &[Area]) -> Vec<u64> {
    let mut stacks: BTreeSet<u64> = guarded(memory, areas).map(|(stack, _)| stack.start).collect();
    for descriptor in listed(memory, areas) {
        let stack = area_at(areas, descriptor);
        stacks
            .extend(stack.filter(|stack| is_on_stack(memory, stack, descriptor)).map(|s| s.start));
    }
    stacks.into_iter().collect()
}

/// Returns the threads' stack pointers, ascending, as far as the kernel tells them (threads that are blocked; ptrace rights needed).
pub fn stack_pointers(pid: u32) -> Vec<u64> {
    const MOST_THREADS: usize = 4096;
    let tasks = proc::names(&format!("{pid}/task"));
    let pointers = tasks.iter().take(MOST_THREADS).filter_map(|task| {
        let call = text::read(format!("/proc/{pid}/task/{}/syscall", task.to_str()?)).ok()?;
        let pointer = call.split_whitespace().rev().nth(1)?;
        u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
    });
    let mut pointers: Vec<u64> = pointers.collect();
    pointers.sort_unstable();
    pointers
}

/// Whatever the threads' variables may refer to as a block: the chunks below.
pub fn thread_pointers(memory: &impl Memory, areas: &[Area]) -> Vec<u64> {
    let mut descriptors: BTreeSet<u64> =
        guarded(memory, areas).map(|(_, descriptor)| descriptor).collect();
    descriptors.extend(listed(memory, areas));
    let mut chunks = Vec::new();
    for descriptor in descriptors {
        let Some(area) = area_at(areas, descriptor) else { continue };
        if chunks.len() > MOST_CHUNKS {
            break;
        }
        let first = descriptor.saturating_sub(SEARCHED_STORAGE_BYTES).max(area.start);
        let bytes = pages(memory, page_of(first), page_of(descriptor) + PAGE_BYTES);
        let words = bytes.chunks_exact(8).filter_map(|word| word_at(word, 0));
        chunks.extend(
            words
                .filter(|word| word.is_multiple_of(16) && *word > PAGE_BYTES)
                .map(|word| word - 16),
        );
    }
    chunks
}

/// A descriptor points to itself (x86-64 psABI: the word at the thread pointer is the thread pointer; glibc's `tcbhead_t` repeats it 16 bytes on).
fn is_descriptor(bytes: &[u8], offset: usize, own: u64) -> bool {
    word_at(bytes, offset) == Some(own) && word_at(bytes, offset + 16) == Some(own)
}

/// Stacks behind a guard, each with its thread's descriptor.
fn guarded<'a>(memory: &impl Memory, areas: &'a [Area]) -> impl Iterator<Item = (&'a Area, u64)> {
    let has_guard = |pair: &&[Area]| {
        pair[0].end == pair[1].start
            && pair[0].permissions.starts_with(b"---")
            && pair[1].is_writable()
            && pair[1].backing() == Backing::Anonymous
            && pair[1].rss > 0
    };
    let stacks = areas.windows(2).filter(has_guard).map(|pair| &pair[1]);
    stacks.filter_map(|stack| Some((stack, last_descriptor(memory, stack)?)))
}

fn last_descriptor(memory: &impl Memory, stack: &Area) -> Option<u64> {
    let first = stack.end.saturating_sub(SEARCHED_PAGES * PAGE_BYTES).max(stack.start);
    let bytes = pages(memory, first, stack.end);
    let mut places = (0..bytes.len().saturating_sub(16)).step_by(16);
    let found = places.find(|&offset| is_descriptor(&bytes, offset, first + offset as u64))?;
    Some(first + found as u64)
}

/// The descriptors on the loader's lists: of threads that run, of kept stacks, and of the first one.
fn listed(memory: &impl Memory, areas: &[Area]) -> Vec<u64> {
    let mut found = Vec::new();
    let is_loader = |area: &&Area| area.is_writable() && base_name(&area.path).starts_with("ld-");
    for area in bounded(areas.iter().filter(is_loader)) {
        let bytes = pages(memory, area.start, area.end);
        for offset in (0..bytes.len().saturating_sub(8)).step_by(8) {
            let head = area.start + offset as u64;
            let next = word_at(&bytes, offset).unwrap_or(0);
            // Descriptors are aligned to a line of the cache, and so are their links.
            if next != 0 && next.is_multiple_of(64) && word_at(&bytes, offset + 8) != Some(0) {
                follow(memory, head, next, &mut found);
            }
        }
    }
    found
}

/// Adds the descriptors of the list with this head, as far as each link leads back to the one before.
fn follow(memory: &impl Memory, head: u64, first: u64, found: &mut Vec<u64>) {
    let (mut before, mut at) = (head, first);
    while at != head && found.len() < MOST_THREADS {
        let Some(own) = at.checked_sub(LINKS) else { return };
        let bytes = read_present(memory, own, LINKS as usize + 16).unwrap_or_default();
        let links = word_at(&bytes, LINKS as usize).zip(word_at(&bytes, LINKS as usize + 8));
        let Some((next, back)) = links else { return };
        if back != before || !is_descriptor(&bytes, 0, own) {
            return;
        }
        found.push(own);
        (before, at) = (at, next);
    }
}

/// Whether the descriptor is on top of a stack in this area: its own record is start, length, guard.
fn is_on_stack(memory: &impl Memory, area: &Area, descriptor: u64) -> bool {
    let bytes = read_present(memory, descriptor, DESCRIPTOR_BYTES).unwrap_or_default();
    let (words, _) = bytes.as_chunks();
    words.windows(3).any(|record| {
        let [start, length, guard] = [0, 1, 2].map(|index| u64::from_le_bytes(record[index]));
        let are_pages = [start, length, guard].iter().all(|word| word.is_multiple_of(PAGE_BYTES));
        let end = start.saturating_add(length);
        are_pages
            && guard > 0
            && guard < length
            && start < descriptor
            && (descriptor..=area.end).contains(&end)
    })
}
