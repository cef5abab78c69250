//! Statistics of the C library's allocator: sums per arena, and over all of them.

use super::find::Parameters;
use super::layout::chunk;
use super::map::HeapMap;
use super::possible;
use super::runs::page_bytes;
use super::strata::Spread;
use crate::memory::{PAGE_BYTES, Presence};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use std::iter::Sum;
use std::sync::Arc;

/// One arena. Bytes; `resident` are those on pages that are present.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    schemars::JsonSchema,
)]
pub struct Arena {
    /// Whether it is the one at the program break.
    pub is_main: bool,
    /// Threads that use it.
    pub threads: u64,
    /// Taken from the kernel.
    pub system_bytes: u64,
    /// Bytes taken from the kernel in ranges that ramson found but could not walk, or did not find at all.
    pub not_walked_bytes: u64,
    /// Resident bytes of the ranges that ramson found but could not walk.
    #[serde(skip)]
    pub not_walked_resident_bytes: u64,
    /// Runs of chunks.
    pub heaps: u64,
    /// Chunks that are not in a bin, with those in fastbins and tcaches.
    pub in_use: Space,
    /// Chunks in bins.
    pub free: Space,
    /// Whole pages of these that are present.
    pub free_page_bytes: u64,
    /// The largest of them.
    pub largest_free_bytes: u64,
    /// The top chunk, and what lies behind it.
    pub top: Space,
    /// In fastbins.
    pub fastbins: Kept,
    /// Whole pages that are present once these are joined with the free chunks beside them, as a trim does first.
    pub joined_page_bytes: u64,
    /// In tcaches that lie in this arena. The chunks in them may lie in others.
    pub tcaches: Kept,
    /// Headers of heaps and the arena's state, outside of chunks; resident.
    #[serde(skip)]
    pub metadata_bytes: u64,
    /// Chunks that hold tcaches, without their sizes.
    #[serde(skip)]
    pub tcache_metadata_bytes: u64,
    /// If not every chunk was walked: how uncertain that makes its figures.
    #[serde(skip)]
    pub spreads: Option<Spreads>,
}

/// How uncertain the figures of a survey are.
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct Spreads {
    /// Uncertainty of the bytes in use by the program.
    pub live: Spread,
    /// Uncertainty of the free bytes.
    pub free: Spread,
    /// Uncertainty of the bytes that a trim returns.
    pub releasable: Spread,
}

impl Spreads {
    /// Half the width of the widest 95% interval, in bytes.
    pub(super) fn widest_half_width_95(&self) -> f64 {
        let half_widths = [self.live, self.free, self.releasable].map(Spread::half_width_95);
        half_widths.into_iter().fold(0.0, f64::max)
    }
}

impl Sum for Spreads {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            live: sum.live + one.live,
            free: sum.free + one.free,
            releasable: sum.releasable + one.releasable,
        })
    }
}

/// Chunks of one kind.
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
pub struct Space {
    /// How many.
    pub chunks: u64,
    /// From the start of each to the next one.
    pub bytes: u64,
    /// Bytes of these chunks on pages that are present.
    pub resident_bytes: u64,
}

impl Space {
    pub(super) fn add(&mut self, presence: &Presence, start: u64, end: u64) {
        self.chunks += 1;
        self.bytes += end - start;
        self.resident_bytes += presence.resident_bytes(start, end);
    }
}

/// Chunks on lists.
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
pub struct Kept {
    /// How many.
    pub chunks: u64,
    /// Number of these chunks that were mapped one by one.
    pub mapped_chunks: u64,
    /// From the start of each to the next one, or the whole area of one that was mapped.
    pub bytes: u64,
    /// Bytes of these chunks on pages that are present. Small chunks count whole.
    pub resident_bytes: u64,
    /// Whether there may be more.
    pub is_cut: bool,
}

impl Kept {
    pub(super) fn add_small(&mut self, chunks: u64, chunk_bytes: u64) {
        self.chunks += chunks;
        self.bytes += chunks * chunk_bytes;
        self.resident_bytes += chunks * chunk_bytes;
    }

    pub(super) fn add(&mut self, other: Self) {
        self.chunks += other.chunks;
        self.mapped_chunks += other.mapped_chunks;
        self.bytes += other.bytes;
        self.resident_bytes += other.resident_bytes;
        self.is_cut |= other.is_cut;
    }
}

impl Arena {
    /// Adds a chunk that lies in a bin.
    pub(super) fn add_free(&mut self, presence: &Presence, start: u64, end: u64) {
        self.free.add(presence, start, end);
        self.free_page_bytes += page_bytes(presence, (start, end), (start, end));
        self.largest_free_bytes = self.largest_free_bytes.max(end - start);
    }

    pub(super) fn leave_out(&mut self, presence: &Presence, start: u64, end: u64) {
        self.not_walked_bytes += end - start;
        self.not_walked_resident_bytes += presence.resident_bytes(start, end);
    }

    /// Freed and not given back: top, bins, fastbins, as `mallinfo2` counts `fordblks`.
    pub fn free_bytes(&self) -> u64 {
        self.top.bytes + self.free.bytes + self.fastbins.bytes
    }

    /// Returns the share (0 to 1) of the resident memory of the arena's chunks that is free but not in whole pages.
    pub fn fragmentation(&self) -> f64 {
        let scattered = self.scattered_bytes();
        let all = self.in_use.resident_bytes + self.free.resident_bytes;
        if all == 0 { 0.0 } else { scattered as f64 / all as f64 }
    }

    /// Returns the resident bytes of free chunks that share pages with blocks in use. Chunks that a trim joins with what is in fastbins to
    /// whole pages do not.
    pub fn scattered_bytes(&self) -> u64 {
        let joined = self.joined_page_bytes.saturating_sub(self.free_page_bytes);
        let from_free = joined.saturating_sub(self.fastbins.bytes);
        self.free.resident_bytes.saturating_sub(self.free_page_bytes).saturating_sub(from_free)
    }

    /// Returns the bytes that `malloc_trim(0)` gives back. `malloc_trim` joins the fastbins' chunks first, and cuts the top of the main arena only.
    pub fn releasable_bytes(&self) -> u64 {
        let top = if self.is_main { self.top.resident_bytes.saturating_sub(PAGE_BYTES) } else { 0 };
        self.joined_page_bytes + top / PAGE_BYTES * PAGE_BYTES
    }
}

/// Memory that the allocator took from the kernel.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Presence of the range's pages, and maybe of those around it.
    pub presence: Arc<Presence>,
}

/// Everything that was read.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct Statistics {
    /// The main arena first.
    pub arenas: Vec<Arena>,
    /// The settings in force.
    pub parameters: Parameters,
    /// Chunks that were mapped one by one, as far as they were found.
    pub mapped: Space,
    /// Whether these are those that the allocator counts.
    pub has_all_mapped: bool,
    /// Ranges in which the chunks of the arenas and the mapped chunks lie.
    pub ranges: Vec<Range>,
    /// Map of the arenas' memory, in use and free.
    pub map: HeapMap,
    /// Resident bytes of the arenas that were read: all of them, or the part that was surveyed.
    pub read_bytes: u64,
}

impl Statistics {
    /// Whether nothing that is worked out from them can fail: to be asked of statistics that came from another process.
    pub fn is_possible(&self) -> bool {
        possible::is_possible(self)
    }

    /// A sum over the arenas.
    pub fn sum(&self, part: impl Fn(&Arena) -> u64) -> u64 {
        self.arenas.iter().map(part).sum()
    }

    /// Taken from the kernel.
    pub fn taken_bytes(&self) -> u64 {
        self.sum(|arena| arena.system_bytes) + self.parameters.mapped_bytes
    }

    /// Returns the resident bytes of chunks in use that the program has: without sizes, fastbins and tcaches.
    pub fn live_resident_bytes(&self) -> u64 {
        let kept = |arena: &Arena| {
            arena.fastbins.bytes + arena.tcaches.resident_bytes + arena.tcache_metadata_bytes
        };
        let in_use = self.sum(|arena| arena.in_use.resident_bytes) + self.mapped.resident_bytes;
        in_use.saturating_sub(self.sum(kept) + self.chunk_metadata_bytes())
    }

    /// The sizes in front of blocks that the program has.
    pub fn chunk_metadata_bytes(&self) -> u64 {
        let kept_mapped = self.sum(|arena| arena.tcaches.mapped_chunks);
        let kept = self.sum(|arena| arena.fastbins.chunks + arena.tcaches.chunks) - kept_mapped;
        let chunks = self.sum(|arena| arena.in_use.chunks).saturating_sub(kept);
        let mapped = self.mapped.chunks.saturating_sub(kept_mapped);
        chunks * chunk::OVERHEAD_BYTES + mapped * 2 * chunk::OVERHEAD_BYTES
    }

    /// In use by the program: without what lies in fastbins and tcaches.
    pub fn live_bytes(&self) -> u64 {
        let arenas = self.sum(|arena| arena.in_use.bytes.saturating_sub(arena.fastbins.bytes));
        (arenas + self.mapped.bytes).saturating_sub(self.sum(|arena| arena.tcaches.bytes))
    }

    /// Returns the usable bytes of all blocks that the program has, resident or not, and the standard deviation that memory which was not
    /// walked gives this figure: as much of it is taken to be in use as elsewhere. `None` if a list of free chunks was not read to its end.
    pub fn allocated_bytes(&self) -> Option<(f64, f64)> {
        if self.arenas.iter().any(|arena| arena.fastbins.is_cut || arena.tcaches.is_cut) {
            return None;
        }
        let kept = |arena: &Arena| arena.fastbins.bytes + arena.tcaches.bytes;
        let kept_chunks = |arena: &Arena| arena.fastbins.chunks + arena.tcaches.chunks;
        let (mapped_chunks, mapped_bytes) = if self.has_all_mapped {
            (self.mapped.chunks, self.mapped.bytes)
        } else {
            (self.parameters.mapped_chunks, self.parameters.mapped_bytes)
        };
        let heads = self.sum(|arena| arena.in_use.chunks).saturating_sub(self.sum(kept_chunks));
        let own = heads * chunk::OVERHEAD_BYTES
            + mapped_chunks * 2 * chunk::OVERHEAD_BYTES
            + self.sum(|arena| arena.tcache_metadata_bytes);
        let in_use = self.sum(|arena| arena.in_use.bytes) + mapped_bytes;
        let allocated = in_use.saturating_sub(self.sum(kept) + own) as f64;
        let not_walked = self.sum(|arena| arena.not_walked_bytes) as f64;
        let walked = self.sum(|arena| arena.system_bytes) as f64 - not_walked;
        let share = if walked > 0.0 { (allocated - mapped_bytes as f64) / walked } else { 0.0 };
        // Nothing between 0 and this many bytes deviates more.
        Some((allocated + share.clamp(0.0, 1.0) * not_walked, not_walked / 2.0))
    }

    /// Half the width of the 95% interval of free bytes; 0 where every chunk was walked.
    pub fn half_width_95_bytes(&self) -> f64 {
        self.spreads().free.half_width_95()
    }

    /// The same of live bytes, all of them or those that are resident.
    pub fn live_half_width_95_bytes(&self) -> f64 {
        self.spreads().live.half_width_95()
    }

    /// The same of what a trim returns.
    pub fn releasable_half_width_95_bytes(&self) -> f64 {
        self.spreads().releasable.half_width_95()
    }

    fn spreads(&self) -> Spreads {
        self.arenas.iter().filter_map(|arena| arena.spreads).sum()
    }

    /// Whether some arenas were surveyed and not walked.
    pub fn is_surveyed(&self) -> bool {
        self.arenas.iter().any(|arena| arena.spreads.is_some())
    }

    /// Returns the share (0 to 1) of the memory that the arenas took from the kernel that was not walked.
    pub fn not_walked_share(&self) -> f64 {
        match self.sum(|arena| arena.system_bytes) {
            0 => 0.0,
            all => self.sum(|arena| arena.not_walked_bytes) as f64 / all as f64,
        }
    }
}
