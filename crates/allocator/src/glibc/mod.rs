//! The books of the C library's allocator: its arenas, what is in use in them, and what was freed and kept.
//!
//! Nothing here stops the process. The walk of a busy heap may tear: what could not be walked is counted as such, never guessed.

mod caches;
mod find;
mod heaps;
mod layout;
mod mapped;
mod walk;

pub use find::Parameters;
pub use walk::Chunk;

use crate::mappings::Mapping;
use crate::memory::{Memory, PAGE_BYTES, Presence};
use caches::Heap;
use find::ArenaState;
use heaps::Segment;
use layout::{Layout, chunk};
use std::fmt;

/// Chunks that may be a tcache; more than there can be threads.
const MOST_TCACHES: usize = 1 << 17;

/// Why there are no books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This version's layout is not known.
    Version(u32, u32),
    /// No arena was found: nothing was ever allocated from it.
    NoArena,
    /// Several places look like the main arena.
    Ambiguous,
    /// The chain of arenas does not lead back to the first one.
    Chain,
    /// The parameters were not found.
    NoParameters,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Version(major, minor) => write!(
                f,
                "the arenas of glibc {major}.{minor} are not known; known are 2.27 to 2.41 on x86-64"
            ),
            Self::NoArena => {
                f.write_str("glibc's malloc has no arena: it was never asked for memory")
            }
            Self::Ambiguous => f.write_str("several places look like glibc's main arena"),
            Self::Chain => f.write_str("the chain of glibc's arenas is broken"),
            Self::NoParameters => f.write_str("glibc's malloc parameters were not found"),
        }
    }
}

/// One arena. Bytes; `resident` are those on pages that are present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// Of its state.
    pub address: u64,
    /// Whether it is the one at the program break.
    pub is_main: bool,
    /// Threads that use it.
    pub threads: u64,
    /// Taken from the kernel.
    pub system_bytes: u64,
    /// Of that in ranges that were found but could not be walked, or not found at all.
    pub not_walked_bytes: u64,
    /// Of the former, resident.
    pub not_walked_resident_bytes: u64,
    /// Runs of chunks.
    pub heaps: u64,
    /// Chunks that are not in a bin, with those in fastbins and tcaches.
    pub in_use: Space,
    /// Chunks in bins.
    pub free: Space,
    /// Whole pages of these that are present: what `malloc_trim` gives back.
    pub free_page_bytes: u64,
    /// The largest of them.
    pub largest_free_bytes: u64,
    /// The top chunk, and what lies behind it.
    pub top: Space,
    /// In fastbins.
    pub fastbins: Kept,
    /// In tcaches that lie in this arena. The chunks in them may lie in others.
    pub tcaches: Kept,
    /// Headers of heaps and the arena's state, outside of chunks; resident.
    pub metadata_bytes: u64,
    /// Chunks that hold tcaches, without their sizes.
    pub tcache_metadata_bytes: u64,
}

/// Chunks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// How many.
    pub chunks: u64,
    /// From the start of each to the next one.
    pub bytes: u64,
    /// Of these, on pages that are present.
    pub resident_bytes: u64,
}

/// Chunks on lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// How many.
    pub chunks: u64,
    /// From the start of each to the next one.
    pub bytes: u64,
    /// Whether there may be more.
    pub is_cut: bool,
}

impl Kept {
    fn add(&mut self, other: Self) {
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.is_cut |= other.is_cut;
    }
}

impl Arena {
    fn leave_out(&mut self, presence: &Presence, start: u64, end: u64) {
        self.not_walked_bytes += end - start;
        self.not_walked_resident_bytes += presence.resident_bytes(start, end);
    }

    /// Freed and not given back: top, bins, fastbins, as `mallinfo2` counts `fordblks`.
    pub fn free_bytes(&self) -> u64 {
        self.top.bytes + self.free.bytes + self.fastbins.bytes
    }

    /// Of the resident memory of its chunks, the share that is free but not in whole pages.
    pub fn fragmentation(&self) -> f64 {
        let scattered = self.free.resident_bytes - self.free_page_bytes;
        let all = self.in_use.resident_bytes + self.free.resident_bytes;
        if all == 0 { 0.0 } else { scattered as f64 / all as f64 }
    }

    /// What `malloc_trim(0)` gives back at once. It cuts the top of the main arena only, and joins the fastbins' chunks first, which
    /// may free more.
    pub fn releasable_bytes(&self) -> u64 {
        let top = if self.is_main { self.top.resident_bytes.saturating_sub(PAGE_BYTES) } else { 0 };
        self.free_page_bytes + top / PAGE_BYTES * PAGE_BYTES
    }
}

/// Memory that the allocator took from the kernel.
#[derive(Clone, Debug)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Its pages.
    pub presence: Presence,
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// The main arena first.
    pub arenas: Vec<Arena>,
    /// The settings in force.
    pub parameters: Parameters,
    /// Chunks that were mapped one by one, as far as they were found.
    pub mapped: Space,
    /// Where all this lies.
    pub ranges: Vec<Range>,
}

impl Books {
    /// A sum over the arenas.
    pub fn sum(&self, part: impl Fn(&Arena) -> u64) -> u64 {
        self.arenas.iter().map(part).sum()
    }

    /// Taken from the kernel.
    pub fn taken_bytes(&self) -> u64 {
        self.sum(|arena| arena.system_bytes) + self.parameters.mapped_bytes
    }

    /// Of the resident memory of chunks in use, what the program has: without sizes, fastbins and tcaches.
    pub fn live_resident_bytes(&self) -> u64 {
        let kept = |arena: &Arena| {
            arena.fastbins.bytes + arena.tcaches.bytes + arena.tcache_metadata_bytes
        };
        let in_use = self.sum(|arena| arena.in_use.resident_bytes) + self.mapped.resident_bytes;
        in_use.saturating_sub(self.sum(kept) + self.chunk_metadata_bytes())
    }

    /// The sizes in front of blocks that the program has.
    pub fn chunk_metadata_bytes(&self) -> u64 {
        let kept = self.sum(|arena| arena.fastbins.chunks + arena.tcaches.chunks);
        let chunks = self.sum(|arena| arena.in_use.chunks).saturating_sub(kept);
        chunks * chunk::OVERHEAD_BYTES + self.mapped.chunks * 2 * chunk::OVERHEAD_BYTES
    }

    /// In use by the program: without what lies in fastbins and tcaches.
    pub fn live_bytes(&self) -> u64 {
        let arenas = self.sum(|arena| arena.in_use.bytes.saturating_sub(arena.fastbins.bytes));
        arenas.saturating_sub(self.sum(|arena| arena.tcaches.bytes)) + self.mapped.bytes
    }

    /// Of what the arenas took from the kernel, the share that was not walked.
    pub fn not_walked_share(&self) -> f64 {
        match self.sum(|arena| arena.system_bytes) {
            0 => 0.0,
            all => self.sum(|arena| arena.not_walked_bytes) as f64 / all as f64,
        }
    }
}

/// Reads the books. `library` are the writable mappings of the C library (or of the program that contains it), `version` its own;
/// `visit` sees every chunk of every arena, by the arena's index.
pub fn read(
    memory: &impl Memory,
    mappings: &[Mapping],
    library: &[&Mapping],
    version: (u32, u32),
    mut visit: impl FnMut(usize, Chunk),
) -> Result<Books, Refusal> {
    let layout = Layout::of(version.1).filter(|_| version.0 == 2);
    let layout = layout.ok_or(Refusal::Version(version.0, version.1))?;
    let main = match find::main_arenas(memory, library).as_slice() {
        [] => return Err(Refusal::NoArena),
        [main] => *main,
        _ => return Err(Refusal::Ambiguous),
    };
    let states = find::chain(memory, main).ok_or(Refusal::Chain)?;
    let main_heap = mappings.iter().find(|mapping| mapping.path == "[heap]");
    let parameters = find::parameters(memory, library, layout, main_heap);
    let parameters = parameters.ok_or(Refusal::NoParameters)?;
    let mut books = Books { parameters, ..Books::default() };
    let mut all_segments = Vec::new();
    let mut tcaches = Vec::new();
    for (index, state) in states.iter().enumerate() {
        let segments = heaps::segments(memory, state, index == 0, layout, &parameters);
        let arena = read_arena(memory, state, &segments, index == 0, |chunk| {
            let is_tcache = chunk.bytes == layout.tcache_chunk_bytes() && !chunk.is_free;
            if is_tcache && tcaches.len() < MOST_TCACHES {
                tcaches.push((index, chunk.address));
            }
            visit(index, chunk);
        });
        books.arenas.push(arena);
        all_segments.extend(segments);
    }
    all_segments.sort_by_key(|segment| segment.start);
    let by_address: Vec<&Segment> = all_segments.iter().collect();
    let mut heap = Heap::new(memory, &by_address);
    read_caches(&mut heap, &states, &tcaches, layout, &mut books);
    let is_outside = |address: u64| !by_address.iter().any(|s| (s.start..s.end).contains(&address));
    let expected = (parameters.mapped_chunks, parameters.mapped_bytes);
    let mapped = mapped::find(memory, mappings, is_outside, expected);
    books.mapped = mapped.space;
    books.ranges = mapped.ranges;
    let ranges = all_segments.into_iter();
    books.ranges.extend(ranges.map(|Segment { start, end, presence, .. }| Range {
        start,
        end,
        presence,
    }));
    books.ranges.sort_by_key(|range| range.start);
    Ok(books)
}

fn read_arena(
    memory: &impl Memory,
    state: &ArenaState,
    segments: &[Segment],
    is_main: bool,
    mut visit: impl FnMut(Chunk),
) -> Arena {
    let found: u64 = segments.iter().map(|segment| segment.end - segment.start).sum();
    let mut arena = Arena {
        address: state.address,
        is_main,
        threads: state.threads(),
        system_bytes: state.system_bytes(),
        heaps: segments.len() as u64,
        // What is in none of its segments.
        not_walked_bytes: state.system_bytes().saturating_sub(found),
        ..Arena::default()
    };
    for segment in segments {
        walk_segment(memory, segment, &mut arena, &mut visit);
    }
    arena
}

fn read_caches(
    heap: &mut Heap<impl Memory>,
    states: &[ArenaState],
    tcaches: &[(usize, u64)],
    layout: &Layout,
    books: &mut Books,
) {
    for (arena, state) in books.arenas.iter_mut().zip(states) {
        for (index, first) in state.fastbins().enumerate() {
            let bytes = chunk::LEAST_BYTES + chunk::ALIGNMENT * index as u64;
            arena.fastbins.add(heap.fastbin(first, bytes, layout));
        }
    }
    for &(index, address) in tcaches {
        if let Some(cached) = heap.tcache(address, layout, &books.parameters) {
            books.arenas[index].tcaches.add(cached);
            books.arenas[index].tcache_metadata_bytes +=
                layout.tcache_chunk_bytes() - chunk::OVERHEAD_BYTES;
        }
    }
}

/// Adds up the chunks of one segment.
fn walk_segment(
    memory: &impl Memory,
    segment: &Segment,
    arena: &mut Arena,
    mut visit: impl FnMut(Chunk),
) {
    let presence = &segment.presence;
    let walked = walk::walk(memory, segment, |chunk| {
        let end = chunk.address + chunk.bytes;
        let resident = presence.resident_bytes(chunk.address, end);
        let space = if chunk.is_free { &mut arena.free } else { &mut arena.in_use };
        space.chunks += 1;
        space.bytes += chunk.bytes;
        space.resident_bytes += resident;
        if chunk.is_free {
            let first = (chunk.address + chunk::TRIM_KEEPS_BYTES).next_multiple_of(PAGE_BYTES);
            arena.free_page_bytes += presence.resident_bytes(first, end / PAGE_BYTES * PAGE_BYTES);
            arena.largest_free_bytes = arena.largest_free_bytes.max(chunk.bytes);
        }
        visit(chunk);
    });
    arena.metadata_bytes += presence.resident_bytes(segment.start, segment.first_chunk);
    let rest = Space {
        chunks: 1,
        bytes: segment.end - walked.end,
        resident_bytes: presence.resident_bytes(walked.end, segment.end),
    };
    match (walked.is_whole, segment.top) {
        (true, Some(_)) => arena.top = rest,
        // A marker and what is left of a page.
        (true, None) => arena.metadata_bytes += rest.resident_bytes,
        (false, _) => arena.leave_out(presence, walked.end, segment.end),
    }
    for (start, end) in walked.gaps {
        arena.leave_out(presence, start, end);
    }
}
