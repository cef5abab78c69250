//! Reads the statistics: finds the arenas, walks or surveys each, and adds what caches and mapped chunks hold.

use super::caches::{FAR_BYTES, Heap, NEAR_BYTES, PageBytes};
use super::find::{ArenaState, LibraryData};
use super::heaps::{self, Segment};
use super::layout::chunk;
use super::map::HeapMap;
use super::mapped_chunks::{self, Expected};
use super::statistics::{Arena, Range, Statistics};
use super::{bins, survey, walk};
use crate::areas::Area;
use crate::memory::{Memory, PAGE_BYTES};
use crate::stacks::thread_pointers;

/// Chunks that may be a tcache; more than there can be threads.
const MOST_TCACHES: usize = 1 << 17;
/// Arenas of so many resident bytes in all are walked by default, larger ones surveyed.
pub const MOST_WALKED_BYTES: u64 = 64 << 20;

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Every chunk, where the arenas have no more resident bytes than this; else a part of them, with an interval.
    Survey(u64),
    /// Every chunk.
    Exact,
}

/// Reads the statistics. `library` are the writable areas of the C library (or of the program that contains it), `version` its own.
pub fn read(
    memory: &impl Memory,
    areas: &[Area],
    library: &[&Area],
    version: (u32, u32),
    effort: Effort,
) -> Result<Statistics, String> {
    let library = LibraryData::read(memory, library, version)?;
    let (layout, states) = (library.layout, library.arenas(memory)?);
    let parameters = library.parameters(areas.iter().find(|area| area.path == "[heap]"))?;
    let of_arena = |(index, state)| heaps::segments(memory, state, index, layout, &parameters);
    let segments: Vec<Vec<Segment>> = states.iter().enumerate().map(of_arena).collect();
    let mut by_address: Vec<&Segment> = segments.iter().flatten().collect();
    by_address.sort_by_key(|segment| segment.start);
    let map = HeapMap::of(by_address.iter().copied());
    let heap = |piece_bytes| Heap::new(memory, layout, parameters, &by_address, piece_bytes);
    let mut reading = Reading {
        heap: heap(NEAR_BYTES),
        bins: heap(FAR_BYTES),
        statistics: Statistics { parameters, map, ..Statistics::default() },
        tcaches: Vec::new(),
    };
    reading.read_arenas(states, &segments, effort);
    reading.read_tcaches(areas);
    let mut statistics = reading.statistics;
    let expected = Expected {
        chunks: parameters.mapped_chunks,
        bytes: parameters.mapped_bytes,
        header_bytes: layout.mapped_header_bytes,
    };
    let mapped = mapped_chunks::find(memory, areas, &by_address, expected);
    statistics.has_all_mapped = expected.are_met_by(&mapped.space);
    statistics.mapped = mapped.space;
    statistics.ranges = mapped.ranges;
    statistics.ranges.extend(segments.into_iter().flatten().map(|segment| Range {
        start: segment.start,
        end: segment.end,
        presence: segment.presence.into(),
    }));
    statistics.ranges.sort_by_key(|range| range.start);
    Ok(statistics)
}

/// The statistics while they are read.
struct Reading<'a, M> {
    heap: Heap<'a, M>,
    /// The same for the lists of bins.
    bins: Heap<'a, M>,
    statistics: Statistics,
    /// Chunks that may be tcaches.
    tcaches: Vec<u64>,
}

impl<M: Memory> Reading<'_, M> {
    fn read_arenas(&mut self, states: Vec<ArenaState>, segments: &[Vec<Segment>], effort: Effort) {
        let resident =
            |segment: &Segment| segment.presence.resident_bytes(segment.start, segment.end);
        let all_resident: u64 = segments.iter().flatten().map(resident).sum();
        let is_exact = match effort {
            Effort::Exact => true,
            Effort::Survey(beyond_bytes) => all_resident <= beyond_bytes,
        };
        let all: u64 = states.iter().map(ArenaState::system_bytes).sum();
        for (mut state, segments) in states.into_iter().zip(segments) {
            let found: u64 = segments.iter().map(|segment| segment.end - segment.start).sum();
            let mut arena = Arena {
                is_main: self.statistics.arenas.is_empty(),
                threads: state.threads(),
                system_bytes: state.system_bytes(),
                heaps: segments.len() as u64,
                // What is in none of its segments.
                not_walked_bytes: state.system_bytes().saturating_sub(found),
                ..Arena::default()
            };
            let is_surveyed = !is_exact && {
                let free = bins::large_free(&mut self.bins, &mut state);
                let share = arena.system_bytes.max(1) as f64 / all.max(1) as f64;
                let map = &mut self.statistics.map;
                survey::survey(self.heap.memory, segments, &free, share, &mut arena, map)
            };
            if !is_surveyed {
                segments.iter().for_each(|segment| self.walk_segment(segment, &mut arena));
            }
            let mut pages = PageBytes::new();
            for (index, first) in state.fastbins().enumerate() {
                let bytes = chunk::LEAST_BYTES + chunk::ALIGNMENT * index as u64;
                arena.fastbins.add(self.heap.fastbin(first, bytes, &mut pages));
            }
            for (page, bytes) in pages {
                arena.fastbin_page_bytes += if bytes == PAGE_BYTES { bytes } else { 0 };
                self.statistics.map.add_fastbins(page, bytes);
            }
            self.statistics.arenas.push(arena);
        }
    }

    /// Those that a walk met, and those that threads refer to.
    fn read_tcaches(&mut self, areas: &[Area]) {
        let segments = self.heap.segments;
        if self.statistics.is_surveyed() {
            self.tcaches.extend(segments.iter().map(|segment| segment.first_chunk));
            self.tcaches.extend(thread_pointers(self.heap.memory, areas));
        }
        self.tcaches.sort_unstable();
        self.tcaches.dedup();
        let chunk_bytes = self.heap.layout.tcache.chunk_bytes();
        for &address in &self.tcaches {
            let behind = segments.partition_point(|segment| segment.start <= address);
            let Some(segment) = segments.get(behind.wrapping_sub(1)) else { continue };
            let Some(arena) = self.statistics.arenas.get_mut(segment.arena) else { continue };
            if self.heap.chunk_bytes(address.saturating_add(16)) != Some(chunk_bytes) {
                continue;
            }
            if let Some(kept) = self.heap.tcache(address) {
                arena.tcaches.add(kept);
                arena.tcache_metadata_bytes += chunk_bytes - chunk::OVERHEAD_BYTES;
            }
        }
    }

    /// Adds up the chunks of one segment.
    fn walk_segment(&mut self, segment: &Segment, arena: &mut Arena) {
        let presence = &segment.presence;
        let tcache_bytes = self.heap.layout.tcache.chunk_bytes();
        let walked = walk::walk(self.heap.memory, segment, |chunk| {
            let end = chunk.address + chunk.bytes;
            if chunk.is_free {
                arena.add_free(presence, chunk.address, end);
                self.statistics.map.add_free(presence, chunk.address, end);
                return;
            }
            arena.in_use.add(presence, chunk.address, end);
            if chunk.bytes == tcache_bytes && self.tcaches.len() < MOST_TCACHES {
                self.tcaches.push(chunk.address);
            }
        });
        arena.metadata_bytes += presence.resident_bytes(segment.start, segment.first_chunk);
        match (walked.is_whole, segment.top) {
            (true, Some(_)) => {
                self.statistics.map.add_free(presence, walked.end, segment.end);
                arena.top.add(presence, walked.end, segment.end);
            }
            // A marker and what is left of a page.
            (true, None) => {
                arena.metadata_bytes += presence.resident_bytes(walked.end, segment.end);
            }
            (false, _) => arena.leave_out(presence, walked.end, segment.end),
        }
        for (start, end) in walked.gaps {
            arena.leave_out(presence, start, end);
        }
    }
}
