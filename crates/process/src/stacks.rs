//! Finds threads' stacks, also of threads that run: by the thread's descriptor at the end of each stack.
//!
//! A guard lies below each. Since glibc 2.42 and Linux 6.13 it is no area of its own, and stacks that
//! touch are one area: there the loader's lists of threads tell, which it has since 2.34.

use crate::areas::{Area, Backing, area_at, bounded};
use crate::identify::base_name;
use crate::memory::{Memory, PAGE_BYTES, half_word_at, page_of, pages, read_present, word_at};
use crate::text;
use ramson_apart::proc;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The descriptor lies in these last pages of a stack; static thread-local storage lies below it.
const SEARCHED_PAGES: u64 = 2;

/// Thread-local storage of libraries that is searched, below the descriptor.
const SEARCHED_STORAGE_BYTES: u64 = 4 * PAGE_BYTES;

/// Offset of the list links in a descriptor (`struct pthread`): after its header, which has this size on x86-64 in every version.
const LINKS: u64 = 704;

/// Offset of the thread's ID, which the kernel sets to 0 when the thread ends: after the links.
const THREAD_ID: u64 = LINKS + 16;

/// Bytes of a descriptor, in every version that has it at the top of a stack.
const DESCRIPTOR_BYTES: usize = 2304;

/// Number of chunks, found in threads' variables, after which no other thread is searched.
const MOST_CHUNKS: usize = 1 << 22;

/// The loader's lists have that many threads at most.
const MOST_THREADS: usize = 1 << 17;

/// Modules with thread-local variables that are looked at, and threads with them.
const MOST_MODULES: u64 = 256;
const MOST_WITH_LOCALS: usize = 1 << 14;

/// Bytes of the loader's variables; more are not the loader's.
const MOST_LOADER_BYTES: u64 = 1 << 20;

/// The stacks that the C library has made.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// Starts of their areas, ascending: areas behind a guard, or on the C library's own lists.
    pub areas: Vec<u64>,
    /// Those of threads that have ended and that no thread has joined.
    pub ended: Vec<Range<u64>>,
    /// Stacks in the program's own memory, for which it made the threads.
    pub given: Vec<Range<u64>>,
    /// The function that most of these threads began with.
    pub ended_function: Option<u64>,
    /// Thread-local variables: on stacks, and of the first thread elsewhere.
    pub thread_locals: Vec<Range<u64>>,
}

impl Stacks {
    /// Finds them.
    pub fn of(memory: &impl Memory, areas: &[Area]) -> Self {
        let lists = lists(memory, areas);
        let mut starts = BTreeSet::new();
        let mut descriptors = BTreeSet::new();
        for (stack, own) in guarded(memory, areas) {
            starts.insert(stack.start);
            descriptors.insert(own);
        }
        let mut given = Vec::new();
        for Listed { descriptor, stack } in lists.iter().flat_map(|list| &list.threads) {
            descriptors.insert(*descriptor);
            let Some((stack, area)) = stack.as_ref().zip(area_at(areas, *descriptor)) else {
                continue;
            };
            if stack.has_guard {
                starts.insert(area.start);
            } else {
                given.push(stack.range.clone());
            }
        }
        let mut ended = ended(memory, &lists);
        ended.sort_unstable_by_key(|thread| thread.descriptor);
        let functions = ended.iter().filter_map(|thread| first_function(memory, areas, thread));
        let descriptors = descriptors.into_iter().take(MOST_WITH_LOCALS);
        let locals = descriptors.filter_map(|own| thread_locals(memory, areas, own));
        Self {
            areas: starts.into_iter().collect(),
            ended_function: most_frequent(functions),
            thread_locals: apart(locals.collect()),
            ended: apart(
                ended.iter().filter_map(|it| Some(it.stack.as_ref()?.range.clone())).collect(),
            ),
            given: apart(given),
        }
    }
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
    descriptors.extend(
        lists(memory, areas).into_iter().flat_map(|list| list.threads).map(|it| it.descriptor),
    );
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

/// One of the loader's lists of threads, with its head's address.
struct List {
    head: u64,
    threads: Vec<Listed>,
}

/// A thread on such a list.
struct Listed {
    descriptor: u64,
    /// `None`: the first thread's stack, which is elsewhere.
    stack: Option<Stack>,
}

/// A thread's stack, without its guard.
struct Stack {
    range: Range<u64>,
    /// The C library made it, and not the program.
    has_guard: bool,
}

/// Of threads that run or are to be joined; of the first one and those whose stacks the program has made; of stacks that are kept for later.
fn lists(memory: &impl Memory, areas: &[Area]) -> Vec<List> {
    let mut lists = Vec::new();
    let mut left = MOST_THREADS;
    let is_loader = |area: &&Area| {
        area.is_writable()
            && base_name(&area.path).starts_with("ld-")
            && area.end - area.start <= MOST_LOADER_BYTES
    };
    for area in bounded(areas.iter().filter(is_loader)) {
        let bytes = pages(memory, area.start, area.end);
        for offset in (0..bytes.len().saturating_sub(8)).step_by(8) {
            let head = area.start + offset as u64;
            let next = word_at(&bytes, offset).unwrap_or(0);
            // Descriptors are aligned to a line of the cache, and so are their links.
            if next != 0 && next.is_multiple_of(64) && word_at(&bytes, offset + 8) != Some(0) {
                let descriptors = follow(memory, head, next, left);
                left -= descriptors.len();
                let stack = |descriptor| stack_with(memory, areas, descriptor);
                let listed = |descriptor| Listed { descriptor, stack: stack(descriptor) };
                lists.push(List { head, threads: descriptors.into_iter().map(listed).collect() });
            }
        }
    }
    lists
}

/// The ended threads on the list of those that run or are to be joined. The loader has that list right before the one with the first thread,
/// whose stack is not of the C library's making.
fn ended<'a>(memory: &impl Memory, lists: &'a [List]) -> Vec<&'a Listed> {
    let of_first = lists.iter().find(|it| it.threads.iter().any(|thread| thread.stack.is_none()));
    let used = of_first.and_then(|first| lists.iter().find(|it| it.head + 16 == first.head));
    let has_ended = |thread: &&Listed| {
        let id = read_present(memory, thread.descriptor + THREAD_ID, 4);
        thread.stack.is_some() && id.is_some_and(|id| half_word_at(&id, 0) == Some(0))
    };
    used.map_or(Vec::new(), |used| used.threads.iter().filter(has_ended).collect())
}

/// The function that a thread was made to call: in its descriptor the only one that is not the C library's.
fn first_function(memory: &impl Memory, areas: &[Area], thread: &Listed) -> Option<u64> {
    let bytes = read_present(memory, thread.descriptor, DESCRIPTOR_BYTES)?;
    let words = bytes.get(THREAD_ID as usize..)?.chunks_exact(8);
    let is_programs = |&word: &u64| {
        area_at(areas, word).is_some_and(|area| {
            let name = base_name(&area.path);
            area.permissions[2] == b'x' && !name.starts_with("libc.") && !name.starts_with("ld-")
        })
    };
    words.filter_map(|word| word_at(word, 0)).find(is_programs)
}

/// The one that most of them are.
fn most_frequent(all: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    let total: usize = counts.values().sum();
    counts.into_iter().find(|&(_, count)| count * 2 > total).map(|(one, _)| one)
}

/// The ranges in their order, without what one has in common with those before: a program may forge any.
fn apart(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut end = 0;
    for range in &mut ranges {
        range.start = range.start.max(end);
        end = range.end.max(end);
    }
    ranges.retain(|range| range.start < range.end);
    ranges
}

/// The thread-local variables that lie right below a descriptor: of all modules that the thread's vector places there.
fn thread_locals(memory: &impl Memory, areas: &[Area], descriptor: u64) -> Option<Range<u64>> {
    let area = area_at(areas, descriptor)?;
    let vector = word_at(&read_present(memory, descriptor + 8, 8)?, 0)?;
    // An entry has two words, and the one before the first has the number of entries.
    let entries = word_at(&read_present(memory, vector.checked_sub(16)?, 8)?, 0)?;
    let bytes = 16 * entries.min(MOST_MODULES) as usize;
    let places = read_present(memory, vector.checked_add(16)?, bytes)?;
    // A module's variables that were allocated later have to be freed, too: that is the second word.
    let is_static = |entry: &&[u8]| word_at(entry, 8) == Some(0);
    let places = places.chunks_exact(16).filter(is_static).filter_map(|entry| word_at(entry, 0));
    let first = places.filter(|place| (area.start..descriptor).contains(place)).min()?;
    Some(first..descriptor)
}

/// The descriptors of the list with this head, `most` at most, as far as each link leads back to the one before.
fn follow(memory: &impl Memory, head: u64, first: u64, most: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let (mut before, mut at) = (head, first);
    while at != head && found.len() < most {
        let Some(own) = at.checked_sub(LINKS) else { break };
        let bytes = read_present(memory, own, LINKS as usize + 16).unwrap_or_default();
        let links = word_at(&bytes, LINKS as usize).zip(word_at(&bytes, LINKS as usize + 8));
        let Some((next, back)) = links else { break };
        if back != before || !is_descriptor(&bytes, 0, own) {
            break;
        }
        found.push(own);
        (before, at) = (at, next);
    }
    found
}

/// The stack that the descriptor is on top of: by the descriptor's own record of start, length and guard.
fn stack_with(memory: &impl Memory, areas: &[Area], descriptor: u64) -> Option<Stack> {
    let area = area_at(areas, descriptor)?;
    let bytes = read_present(memory, descriptor, DESCRIPTOR_BYTES).unwrap_or_default();
    let (words, _) = bytes.as_chunks();
    let stack = |record: &[[u8; 8]]| {
        let [start, length, guard] = [0, 1, 2].map(|index| u64::from_le_bytes(record[index]));
        let are_pages = [start, length, guard].iter().all(|word| word.is_multiple_of(PAGE_BYTES));
        let end = start.saturating_add(length);
        let is_one = are_pages
            && guard < length
            && start < descriptor
            && (guard > 0 || start >= area.start)
            && (descriptor..=area.end).contains(&end);
        is_one.then(|| Stack { range: start + guard..end, has_guard: guard > 0 })
    };
    words.windows(3).find_map(stack)
}
