//! Finds `main_arena` and the parameters in the C library's data: by their own consistency, without symbols.

use super::layout::{LAYOUTS, Layout, SMALL_TCACHE_BINS, arena, chunk, parameters};
use crate::areas::Area;
use crate::memory::{Memory, PAGE_BYTES, half_word_at, pages, read_present, word_at};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Least number of the 127 bins that must be lists that lead back to themselves. Threads may change some meanwhile, others may be swapped out.
const LEAST_WHOLE_BINS: usize = 32;
/// Offset of the pointer to the chunk before in the list, in a free chunk.
const BACKWARD: u64 = 24;
/// Chain of arenas followed at most; glibc itself limits them to 8 a core.
const MOST_ARENAS: usize = 65_536;
/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_micros(100);

/// A copy of one `struct malloc_state`.
#[derive(Clone, Debug)]
pub struct ArenaState {
    pub address: u64,
    /// Offset of its top.
    top: usize,
    bytes: Vec<u8>,
}

impl ArenaState {
    fn read(memory: &impl Memory, address: u64, top: usize) -> Option<Self> {
        let bytes = read_present(memory, address, top + arena::BYTES)?;
        // No more than that: the chain led here.
        looks_like_arena(&bytes, top).then_some(Self { address, top, bytes })
    }

    pub fn top(&self) -> u64 {
        self.word(0)
    }

    pub fn system_bytes(&self) -> u64 {
        self.word(arena::SYSTEM_MEM)
    }

    pub fn threads(&self) -> u64 {
        self.word(arena::ATTACHED_THREADS)
    }

    /// The address of each fastbin, and its first chunk; 0 where it is empty.
    pub fn fastbins(&self) -> impl Iterator<Item = (u64, u64)> {
        let offsets = (arena::FASTBINS..self.top).step_by(8);
        offsets.filter_map(|at| Some((self.address + at as u64, word_at(&self.bytes, at)?)))
    }

    /// Returns the address by which a list refers to the bin of this number, and the bin's first and last chunk. An empty bin is its own first and
    /// last chunk.
    pub fn bin(&self, number: usize) -> (u64, [u64; 2]) {
        let offset = arena::BINS + 16 * (number - 1);
        let own = self.address + (self.top + offset) as u64 - 16;
        (own, [self.word(offset), self.word(offset + 8)])
    }

    /// Whether this is the address of a bin as lists refer to it.
    pub fn is_bin(&self, address: u64) -> bool {
        let first = self.bin(1).0;
        (first..first + 16 * arena::BIN_COUNT as u64).contains(&address)
    }

    /// Before the first allocation, the top is the address of the first bin.
    pub fn is_empty(&self) -> bool {
        self.top() == self.bin(1).0
    }

    fn word(&self, behind_top: usize) -> u64 {
        word_at(&self.bytes, self.top + behind_top).unwrap_or(0)
    }
}

/// Whether the bytes meet the conditions that every arena meets at every moment, without a look at what the arena refers to.
fn looks_like_arena(bytes: &[u8], top: usize) -> bool {
    let word = |behind_top| word_at(bytes, top + behind_top).unwrap_or(0);
    let is_pointer = |offset: usize| {
        let word = word(offset);
        word != 0 && word.is_multiple_of(8) && word < 1 << 47
    };
    let mut ends = (arena::BINS..).step_by(8).take(2 * arena::BIN_COUNT);
    is_pointer(arena::NEXT)
        && is_pointer(0)
        && word(arena::SYSTEM_MEM) < 1 << 47
        && word(arena::MAX_SYSTEM_MEM) < 1 << 47
        && word(arena::ATTACHED_THREADS) < 1 << 22
        && half_word_at(bytes, arena::MUTEX).is_some_and(|lock| lock <= 2)
        && ends.all(is_pointer)
}

/// Whether most bins are lists that lead back to themselves: what looks like an arena is one.
fn has_whole_bins(memory: &impl Memory, bytes: &[u8], address: u64, top: usize) -> bool {
    let is_whole = |&bin: &usize| {
        let offset = top + arena::BINS + 16 * bin;
        let own = Some(address + offset as u64 - 16);
        let (forward, backward) = (word_at(bytes, offset), word_at(bytes, offset + 8));
        if forward == own {
            return backward == own;
        }
        let before_first = forward.and_then(|first| first.checked_add(BACKWARD));
        let before_first = before_first.and_then(|at| read_present(memory, at, 8));
        before_first.and_then(|bytes| word_at(&bytes, 0)) == own
    };
    (0..arena::BIN_COUNT).filter(is_whole).count() >= LEAST_WHOLE_BINS
}

/// Contents of the C library's variables.
pub struct LibraryData {
    pub(super) layout: &'static Layout,
    main_arena: u64,
    /// The writable areas: address, and contents with zeros where a page is absent.
    data: Vec<(u64, Vec<u8>)>,
}

impl LibraryData {
    /// From the library's writable areas, which must have exactly one place that is consistent as an arena.
    pub fn read(
        memory: &impl Memory,
        areas: &[&Area],
        version: (u32, u32),
    ) -> Result<Self, String> {
        let layout = Layout::of(version).ok_or_else(|| {
            let (major, minor) = version;
            let (_, newest) = LAYOUTS[LAYOUTS.len() - 1].minor;
            format!(
                "ramson does not know the arenas of glibc {major}.{minor}, only those of 2.27 to 2.{newest} on x86-64"
            )
        })?;
        let data: Vec<_> =
            areas.iter().map(|area| (area.start, pages(memory, area.start, area.end))).collect();
        let top = layout.top;
        let mut found = Vec::new();
        for (start, bytes) in &data {
            for offset in (0..bytes.len().saturating_sub(top + arena::BYTES)).step_by(8) {
                let address = start + offset as u64;
                let bytes = &bytes[offset..];
                // The chain of arenas: a cheap first look.
                if word_at(bytes, top + arena::NEXT) != Some(0)
                    && looks_like_arena(bytes, top)
                    && has_whole_bins(memory, bytes, address, top)
                {
                    found.push(address);
                }
            }
        }
        match *found {
            [] => Err("glibc's malloc has no arena: nothing was ever allocated".into()),
            [main_arena] => Ok(Self { layout, main_arena, data }),
            _ => Err("several places look like glibc's main arena".into()),
        }
    }

    /// The arenas, the main one first.
    pub(super) fn arenas(&self, memory: &impl Memory) -> Result<Vec<ArenaState>, String> {
        let mut arenas: Vec<ArenaState> = Vec::new();
        let mut next = self.main_arena;
        while arenas.is_empty() || next != self.main_arena {
            let state = ArenaState::read(memory, next, self.layout.top)
                .filter(|_| arenas.len() < MOST_ARENAS)
                .ok_or("the chain of glibc's arenas is broken")?;
            next = state.word(arena::NEXT);
            arenas.push(state);
        }
        Ok(arenas)
    }

    /// Whether each arena's lock, all that `malloc_trim` takes, is seen free once within `limit`: a thread that is stopped meanwhile then holds none.
    /// A lock that is never seen free may belong to a thread that no longer exists.
    pub fn are_locks_seen_free(&self, memory: &impl Memory, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut held: Option<Vec<u64>> = None;
        loop {
            // A chain that is read while it grows may be inconsistent.
            held = held.or_else(|| {
                let arenas = self.arenas(memory).ok()?;
                Some(arenas.iter().map(|state| state.address + arena::MUTEX as u64).collect())
            });
            if let Some(held) = &mut held {
                let mut heads = memory.heads(held).into_iter();
                held.retain(|_| heads.next().flatten().is_none_or(|[word, ..]| word as u32 != 0));
            }
            let are_seen_free = held.as_ref().is_some_and(Vec::is_empty);
            if are_seen_free || Instant::now() > deadline {
                return are_seen_free;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The parameters, of which exactly one place must be consistent as such. The main arena may start in `main_heap`.
    pub(super) fn parameters(&self, main_heap: Option<&Area>) -> Result<Parameters, String> {
        let bytes = self.layout.mmapped_mem + parameters::BYTES;
        let places = self.data.iter().flat_map(|(_, data)| data.windows(bytes).step_by(8));
        let mut found = places.filter_map(|place| parameters_at(place, self.layout, main_heap));
        let first = found.next().filter(|_| found.next().is_none());
        first.ok_or_else(|| "glibc's malloc parameters were not found".into())
    }
}

/// `struct malloc_par`: the settings in force and what was mapped for large chunks.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    schemars::JsonSchema,
)]
pub struct Parameters {
    /// Free bytes at the top of the main arena from which it shrinks.
    pub trim_threshold_bytes: u64,
    /// Taken and kept in addition.
    pub top_pad_bytes: u64,
    /// Larger chunks are mapped.
    pub mmap_threshold_bytes: u64,
    /// Whether the thresholds move with what is freed.
    pub has_dynamic_thresholds: bool,
    /// Bound of the number of arenas; 0: `arenas_a_core`, but 8 at least.
    pub arena_max: u64,
    /// Most arenas per core, used if there is no bound.
    pub arenas_a_core: u64,
    /// Mapped chunks.
    pub mapped_chunks: u64,
    /// Their bytes. In 2.43 and 2.44, 16 too many for each time that one of them was resized.
    pub mapped_bytes: u64,
    /// Address at which the main arena starts; 0 if it never grew.
    pub sbrk_base: u64,
    /// Chunks of one size that a thread keeps at most.
    pub tcache_count: u64,
    /// Larger blocks it does not keep.
    pub tcache_max_bytes: u64,
    /// Bytes per huge page of the heaps, 0 for none.
    pub huge_page_bytes: u64,
}

fn parameters_at(bytes: &[u8], layout: &Layout, main_heap: Option<&Area>) -> Option<Parameters> {
    let word = |offset| word_at(bytes, offset);
    let half = |offset| half_word_at(bytes, offset).map(u64::from);
    let mapped = layout.mmapped_mem;
    let tcache = mapped + parameters::TCACHE_BINS;
    // The cheapest test, and nearly enough.
    let tcache_max_bytes = tcache_max_bytes(layout, word(tcache)?, word(tcache + 8)?)?;
    let mapped_bytes = word(mapped)?;
    let mapped_chunks = half(layout.n_mmaps)?;
    let sbrk_base = word(mapped + parameters::SBRK_BASE)?;
    let has_fixed_thresholds = half(layout.n_mmaps + parameters::NO_DYN_THRESHOLD)?;
    let huge_page_bytes = layout.hp_pagesize.map_or(Some(0), word)?;
    // With huge pages of hugetlbfs, the main arena is mapped.
    let may_be_mapped = huge_page_bytes > 0 && sbrk_base.is_multiple_of(PAGE_BYTES);
    let is_in_heap = || main_heap.is_some_and(|heap| heap.contains(sbrk_base));
    let is_base = sbrk_base == 0 || may_be_mapped || is_in_heap();
    let are_mapped_bytes = match layout.mapped_header_bytes {
        0 => mapped_bytes.is_multiple_of(PAGE_BYTES) && (mapped_chunks == 0) == (mapped_bytes == 0),
        header => mapped_bytes.is_multiple_of(header) && mapped_bytes >= mapped_chunks * PAGE_BYTES,
    };
    // Behind each number is the largest that it has been.
    let is_consistent = is_base
        && are_mapped_bytes
        && mapped_bytes <= word(mapped + 8)?
        && mapped_chunks <= half(layout.n_mmaps + 8)?
        && has_fixed_thresholds <= 1
        && word(24)? <= 1 << 20
        && word(16)? > 0;
    is_consistent.then_some(Parameters {
        trim_threshold_bytes: word(0)?,
        top_pad_bytes: word(8)?,
        mmap_threshold_bytes: word(16)?,
        has_dynamic_thresholds: has_fixed_thresholds == 0,
        arena_max: word(32)?,
        arenas_a_core: layout.arenas_a_core,
        mapped_chunks,
        mapped_bytes,
        sbrk_base,
        tcache_count: word(tcache + 16)?,
        tcache_max_bytes,
        huge_page_bytes,
    })
}

/// The largest block that a tcache keeps, by its small bins in use and its limit; `None` if these do not belong together.
fn tcache_max_bytes(layout: &Layout, bins: u64, limit: u64) -> Option<u64> {
    if !(1..=SMALL_TCACHE_BINS as u64).contains(&bins) {
        return None;
    }
    if layout.tcache.bins == SMALL_TCACHE_BINS {
        // The size of the largest block of the last bin.
        let is_last = limit <= 16 * bins + 8 && limit + 16 > 16 * (bins - 1) + 8;
        return is_last.then_some(limit);
    }
    // Chunks are smaller than the limit, which is one more than the largest; in 2.42 as released the largest itself, or 1032 at first.
    let bin_bytes = limit.checked_add(chunk::OVERHEAD_BYTES)? & !(chunk::ALIGNMENT - 1);
    let bin = bin_bytes.checked_sub(chunk::LEAST_BYTES)? / chunk::ALIGNMENT;
    let is_consistent = bins == (bin + 1).min(SMALL_TCACHE_BINS as u64)
        && bin_bytes < layout.tcache.sizes(layout.tcache.bins - 1).end
        && (limit % chunk::ALIGNMENT <= 1 || limit == 1032);
    let largest = (limit - 1) & !(chunk::ALIGNMENT - 1);
    let has_any = largest >= chunk::LEAST_BYTES;
    is_consistent.then(|| if has_any { largest - chunk::OVERHEAD_BYTES } else { 0 })
}
