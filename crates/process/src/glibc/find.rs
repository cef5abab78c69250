//! Finds `main_arena` and the parameters in the C library's data: by their own consistency, without symbols.

use super::layout::{ArenaLayout, Layout, SMALL_TCACHE_BINS, TcacheLayout, arena, chunk};
use crate::areas::Area;
use crate::memory::{Memory, PAGE_BYTES, Presence, half_word_at, read_present, word_at};
use serde::Serialize;

/// So many of the 127 bins at least must be lists that lead back to themselves. Threads may change some meanwhile, others be swapped out.
const LEAST_WHOLE_BINS: usize = 32;
/// Offset of the pointer to the chunk before in the list, in a free chunk.
const BACKWARD: u64 = 24;
/// Data of a library or program that is searched at most.
const MOST_DATA_BYTES: u64 = 64 << 20;
/// Chain of arenas followed at most; glibc itself limits them to 8 a core.
const MOST_ARENAS: usize = 65_536;

/// A copy of one `struct malloc_state`.
#[derive(Clone, Debug)]
pub struct ArenaState {
    pub address: u64,
    layout: &'static ArenaLayout,
    bytes: Vec<u8>,
}

impl ArenaState {
    /// Reads the one at `address`.
    pub fn read(memory: &impl Memory, address: u64, layout: &'static ArenaLayout) -> Option<Self> {
        let bytes = read_present(memory, address, layout.bytes)?;
        // No more than that: the chain led here.
        looks_like_arena(&bytes, layout).then_some(Self { address, layout, bytes })
    }

    /// The same, as it is now.
    pub fn read_again(&self, memory: &impl Memory) -> Option<Self> {
        Self::read(memory, self.address, self.layout)
    }

    pub fn top(&self) -> u64 {
        self.word(self.layout.top)
    }

    pub fn system_bytes(&self) -> u64 {
        self.word(self.layout.system_mem)
    }

    pub fn threads(&self) -> u64 {
        self.word(self.layout.attached_threads)
    }

    /// The first chunk of each fastbin; 0 where it is empty.
    pub fn fastbins(&self) -> impl Iterator<Item = u64> {
        self.layout.fastbins.clone().step_by(8).map(|offset| self.word(offset))
    }

    /// What a list refers to as the bin of this number, and its first chunk, which is the bin itself if it is empty.
    pub fn bin(&self, number: usize) -> (u64, u64) {
        let offset = self.layout.bins + 16 * (number - 1);
        (self.address + offset as u64 - 16, self.word(offset))
    }

    /// Before the first allocation, the top is the address of the first bin.
    pub fn is_empty(&self) -> bool {
        self.top() == self.address + self.layout.bins as u64 - 16
    }

    fn word(&self, offset: usize) -> u64 {
        word_at(&self.bytes, offset).unwrap_or(0)
    }
}

/// What holds of every arena at every moment, without a look at what it refers to.
fn looks_like_arena(bytes: &[u8], layout: &ArenaLayout) -> bool {
    let word = |offset| word_at(bytes, offset).unwrap_or(0);
    let is_pointer = |word: u64| word != 0 && word.is_multiple_of(8) && word < 1 << 47;
    let (next, top) = (word(layout.next), word(layout.top));
    if bytes.len() < layout.bytes || !is_pointer(next) || !is_pointer(top) {
        return false;
    }
    let has_sane_numbers = word(layout.system_mem) < 1 << 47
        && word(layout.max_system_mem) < 1 << 47
        && word(layout.attached_threads) < 1 << 22
        && word(arena::MUTEX) as u32 <= 2;
    let mut ends = (layout.bins..).step_by(8).take(2 * arena::BIN_COUNT);
    has_sane_numbers && ends.all(|offset| is_pointer(word(offset)))
}

/// Whether most bins are lists that lead back to themselves: what looks like an arena is one.
fn has_whole_bins(memory: &impl Memory, bytes: &[u8], address: u64, layout: &ArenaLayout) -> bool {
    let word = |offset| word_at(bytes, offset).unwrap_or(0);
    let is_whole = |&bin: &usize| {
        let offset = layout.bins + 16 * bin;
        let (forward, backward, own) =
            (word(offset), word(offset + 8), address + offset as u64 - 16);
        if forward == own {
            return backward == own;
        }
        let before_first = forward.checked_add(BACKWARD);
        let before_first = before_first.and_then(|at| read_present(memory, at, 8));
        before_first.and_then(|bytes| word_at(&bytes, 0)) == Some(own)
    };
    (0..arena::BIN_COUNT).filter(is_whole).count() >= LEAST_WHOLE_BINS
}

/// The present data of `areas`, in runs of pages.
fn data_runs(memory: &impl Memory, areas: &[&Area]) -> Vec<(u64, Vec<u8>)> {
    let mut runs = Vec::new();
    for area in areas {
        let end = area.end.min(area.start + MOST_DATA_BYTES);
        let Some(presence) = Presence::of(memory, area.start, end) else { continue };
        let mut at = area.start;
        while at < end {
            let pages = presence.present_run(at, end, u64::MAX);
            let mut bytes = vec![0; (pages * PAGE_BYTES) as usize];
            if pages > 0 && memory.read(at, &mut bytes) {
                runs.push((at, bytes));
            }
            at += pages.max(1) * PAGE_BYTES;
        }
    }
    runs
}

/// Everything in `areas` that is consistent as an arena; the C library has one there.
pub fn main_arenas(memory: &impl Memory, areas: &[&Area], layout: &ArenaLayout) -> Vec<u64> {
    let mut found = Vec::new();
    for (start, bytes) in data_runs(memory, areas) {
        for offset in (0..bytes.len().saturating_sub(layout.bytes)).step_by(8) {
            let address = start + offset as u64;
            // The last bin is for chunks of half a MiB and more: a cheap first look.
            if word_at(&bytes, offset + layout.next).is_some_and(|next| next != 0)
                && looks_like_arena(&bytes[offset..], layout)
                && has_whole_bins(memory, &bytes[offset..], address, layout)
            {
                found.push(address);
            }
        }
    }
    found
}

/// The arenas, the main one first; `None` if the chain does not lead back to it.
pub fn chain(
    memory: &impl Memory,
    main: u64,
    layout: &'static ArenaLayout,
) -> Option<Vec<ArenaState>> {
    let mut arenas = vec![ArenaState::read(memory, main, layout)?];
    loop {
        let next = arenas.last()?.word(layout.next);
        if next == main {
            return Some(arenas);
        }
        if arenas.len() >= MOST_ARENAS {
            return None;
        }
        arenas.push(ArenaState::read(memory, next, layout)?);
    }
}

/// `struct malloc_par`: the settings in force and what was mapped for large chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Where there is no bound.
    pub arenas_a_core: u64,
    /// Mapped chunks.
    pub mapped_chunks: u64,
    /// Their bytes. In 2.43 and 2.44, 16 too many for each time that one of them was resized.
    pub mapped_bytes: u64,
    /// Where the main arena starts; 0 if it never grew.
    pub sbrk_base: u64,
    /// Chunks of one size that a thread keeps at most.
    pub tcache_count: u64,
    /// Larger blocks it does not keep.
    pub tcache_max_bytes: u64,
    /// Bytes per huge page of the heaps, 0 for none.
    pub huge_page_bytes: u64,
}

/// The parameters, if exactly one place in `areas` is consistent as such. `break_start` is where the main arena may start.
pub fn parameters(
    memory: &impl Memory,
    areas: &[&Area],
    layout: &Layout,
    main_heap: Option<&Area>,
) -> Option<Parameters> {
    let mut found: Option<Parameters> = None;
    for (_, bytes) in data_runs(memory, areas) {
        for offset in (0..bytes.len().saturating_sub(layout.parameters.bytes)).step_by(8) {
            let candidate = parameters_at(&bytes[offset..], layout, main_heap);
            match (candidate, &found) {
                (Some(_), Some(_)) => return None,
                (Some(parameters), None) => found = Some(parameters),
                (None, _) => {}
            }
        }
    }
    found
}

fn parameters_at(bytes: &[u8], layout: &Layout, main_heap: Option<&Area>) -> Option<Parameters> {
    let word = |offset| word_at(bytes, offset);
    let half = |offset| half_word_at(bytes, offset).map(u64::from);
    let offsets = layout.parameters;
    let (bins, limit) = (word(offsets.tcache_bins)?, word(offsets.tcache_bins + 8)?);
    // The cheapest test, and nearly enough.
    let tcache_max_bytes = tcache_max_bytes(layout.tcache, bins, limit)?;
    let (mapped_bytes, most_mapped_bytes) =
        (word(offsets.mmapped_mem)?, word(offsets.mmapped_mem + 8)?);
    let (mapped_chunks, most_mapped_chunks) = (half(offsets.n_mmaps)?, half(offsets.n_mmaps + 8)?);
    let sbrk_base = word(offsets.sbrk_base)?;
    let is_base = sbrk_base == 0 || main_heap.is_some_and(|heap| heap.contains(sbrk_base));
    let are_mapped_bytes = match layout.mapped_header_bytes {
        0 => mapped_bytes.is_multiple_of(PAGE_BYTES) && (mapped_chunks == 0) == (mapped_bytes == 0),
        header => mapped_bytes.is_multiple_of(header) && mapped_bytes >= mapped_chunks * PAGE_BYTES,
    };
    let is_consistent = is_base
        && are_mapped_bytes
        && mapped_bytes <= most_mapped_bytes
        && mapped_chunks <= most_mapped_chunks
        && half(offsets.no_dyn_threshold)? <= 1
        && word(24)? <= 1 << 20
        && word(16)? > 0;
    is_consistent.then_some(Parameters {
        trim_threshold_bytes: word(0)?,
        top_pad_bytes: word(8)?,
        mmap_threshold_bytes: word(16)?,
        has_dynamic_thresholds: half(offsets.no_dyn_threshold)? == 0,
        arena_max: word(32)?,
        arenas_a_core: layout.arenas_a_core,
        mapped_chunks,
        mapped_bytes,
        sbrk_base,
        tcache_count: word(offsets.tcache_bins + 16)?,
        tcache_max_bytes,
        huge_page_bytes: offsets.hp_pagesize.map_or(Some(0), word)?,
    })
}

/// The largest block that a tcache keeps, by its small bins in use and its limit; `None` if these do not belong together.
fn tcache_max_bytes(layout: &TcacheLayout, bins: u64, limit: u64) -> Option<u64> {
    if !(1..=SMALL_TCACHE_BINS as u64).contains(&bins) {
        return None;
    }
    if layout.bins == SMALL_TCACHE_BINS {
        // The size of the largest block of the last bin.
        let is_last = limit <= 16 * bins + 8 && limit + 16 > 16 * (bins - 1) + 8;
        return is_last.then_some(limit);
    }
    // Chunks are smaller than the limit, which is one more than the largest; in 2.42 as released the largest itself, or 1032 at first.
    let bin_bytes = limit.checked_add(chunk::OVERHEAD_BYTES)? & !(chunk::ALIGNMENT - 1);
    let bin = bin_bytes.checked_sub(chunk::LEAST_BYTES)? / chunk::ALIGNMENT;
    let is_consistent = bins == (bin + 1).min(SMALL_TCACHE_BINS as u64)
        && bin_bytes < layout.sizes(layout.bins - 1).end
        && (limit % chunk::ALIGNMENT <= 1 || limit == 1032);
    let largest = (limit - 1) & !(chunk::ALIGNMENT - 1);
    let has_any = largest >= chunk::LEAST_BYTES;
    is_consistent.then(|| if has_any { largest - chunk::OVERHEAD_BYTES } else { 0 })
}
