//! Reads the statistics: finds the arenas, walks or surveys each, and adds what caches and mapped chunks hold.

use super::caches::Heap;
use super::find::{ArenaState, LibraryData};
use super::heaps::{self, Segment};
use super::layout::chunk;
use super::lists::{Listed, listed};
use super::map::HeapMap;
use super::mapped_chunks::{self, Expected};
use super::runs::{joined, run_page_bytes};
use super::statistics::{Arena, Range, Statistics};
use super::sums::Known;
use super::survey::{PIECE_BYTES, Plan, Subject, survey};
use super::walk;
use crate::areas::Area;
use crate::memory::Memory;
use crate::stacks::thread_pointers;
use borsh::{BorshDeserialize, BorshSerialize};

/// Chunks that may be a tcache; more than there can be threads.
const MOST_TCACHES: usize = 1 << 17;
/// Arenas of so many resident bytes in all are walked by default, larger ones surveyed.
pub const MOST_WALKED_BYTES: u64 = 64 << 20;

/// Tcaches of an arena: those that hold chunks, and what may be one that holds none.
#[derive(Clone, Default)]
struct Found {
    tcaches: u64,
    empty: u64,
}

/// If more than one part in so many of the arenas' memory is not where it should be, statistics of the rest would mislead.
const MOST_MISSING: u64 = 8;
/// Chunks that a survey follows at least on lists of free chunks, and pieces per additional chunk.
const LEAST_FOLLOWED: usize = 1 << 14;
const PIECES_A_CHUNK: u64 = 2;

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Effort {
    /// Every chunk, where the arenas have no more resident bytes than this; else a part of them, with an interval.
    Survey(u64),
    /// The given number of pieces of 64 KiB, or all if there are fewer, in addition to the lists of free chunks as far as these are short.
    Sample(usize),
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
    let layout = library.layout;
    let states = library.arenas(memory)?;
    let parameters = library.parameters(areas.iter().find(|area| area.path == "[heap]"))?;
    let of_arena =
        |(index, state)| heaps::segments(memory, areas, state, index, layout, &parameters);
    let segments: Vec<Vec<Segment>> = states.iter().enumerate().map(of_arena).collect();
    let arenas = begin(&states, &segments);
    // What tears may be any number.
    let sum = |of: fn(&Arena) -> u64| arenas.iter().map(of).fold(0, u64::saturating_add);
    let [taken, missing] = [sum(|arena| arena.system_bytes), sum(|arena| arena.not_walked_bytes)];
    if missing > taken / MOST_MISSING {
        return Err(format!("{missing} of its arenas' {taken} bytes were not found"));
    }
    let mut by_address: Vec<&Segment> = segments.iter().flatten().collect();
    by_address.sort_by_key(|segment| segment.start);
    let map = HeapMap::of(by_address.iter().copied());
    let resident: u64 = segments.iter().flatten().map(Segment::resident_bytes).sum();
    let is_exact = match effort {
        Effort::Exact => true,
        Effort::Survey(beyond_bytes) => resident <= beyond_bytes,
        Effort::Sample(_) => false,
    };
    let followed = LEAST_FOLLOWED + (resident / PIECE_BYTES / PIECES_A_CHUNK) as usize;
    let budget = if is_exact { usize::MAX } else { followed };
    let mut reading = Reading {
        heap: Heap::new(memory, layout, parameters, &by_address, budget),
        statistics: Statistics { parameters, map, ..Statistics::default() },
        tcaches: Vec::new(),
    };
    reading.statistics.arenas = arenas;
    let known = reading.follow(&states, if is_exact { 0 } else { followed });
    if is_exact {
        reading.walk(&segments, &known);
        reading.statistics.read_bytes = resident;
    } else {
        let pieces = if let Effort::Sample(pieces) = effort { Some(pieces) } else { None };
        reading.survey(&states, &segments, &known, pieces);
    }
    // A new budget: there are few, and each is at a known place.
    reading.heap = Heap::new(memory, layout, parameters, &by_address, followed);
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

/// The arenas without their chunks.
fn begin(states: &[ArenaState], segments: &[Vec<Segment>]) -> Vec<Arena> {
    let of_arena = |(index, (state, segments)): (usize, (&ArenaState, &Vec<Segment>))| {
        let found: u64 = segments.iter().map(|segment| segment.end - segment.start).sum();
        Arena {
            is_main: index == 0,
            threads: state.threads(),
            system_bytes: state.system_bytes(),
            heaps: segments.len() as u64,
            // Memory that is in none of the arena's segments.
            not_walked_bytes: state.system_bytes().saturating_sub(found),
            ..Arena::default()
        }
    };
    states.iter().zip(segments).enumerate().map(of_arena).collect()
}

/// The statistics while they are read.
struct Reading<'a, M> {
    heap: Heap<'a, M>,
    statistics: Statistics,
    /// Chunks that may be tcaches.
    tcaches: Vec<u64>,
}

impl<M: Memory> Reading<'_, M> {
    /// Follows the fastbins, and of the other lists of free chunks `most` chunks.
    fn follow(&mut self, states: &[ArenaState], most: usize) -> Vec<Known> {
        let listed = match most {
            0 => vec![Listed::default(); states.len()],
            _ => listed(self.heap.memory, self.heap.segments, states, most),
        };
        let mut all = Vec::new();
        for ((state, arena), listed) in states.iter().zip(&mut self.statistics.arenas).zip(listed) {
            let mut fastbins = Vec::new();
            for (index, fastbin) in state.fastbins().enumerate() {
                let bytes = chunk::LEAST_BYTES + chunk::ALIGNMENT * index as u64;
                arena.fastbins.add(self.heap.fastbin(fastbin, bytes, &mut fastbins));
            }
            fastbins.sort_unstable();
            let mut free = [listed.chunks.as_slice(), &fastbins].concat();
            free.sort_unstable();
            all.push(Known {
                free: listed.chunks,
                is_whole: listed.is_whole,
                fastbins,
                has_all_fastbins: !arena.fastbins.is_cut,
                runs: joined(free.into_iter()),
            });
        }
        all
    }

    fn survey(
        &mut self,
        states: &[ArenaState],
        segments: &[Vec<Segment>],
        known: &[Known],
        pieces: Option<usize>,
    ) {
        let plan = Plan {
            memory: self.heap.memory,
            segments: self.heap.segments,
            has_safe_linking: self.heap.layout.has_safe_linking,
            pieces,
        };
        let subject = |((state, segments), known)| Subject {
            state,
            segments: Vec::as_slice(segments),
            known,
        };
        let subjects: Vec<Subject> = states.iter().zip(segments).zip(known).map(subject).collect();
        let Statistics { arenas, map, .. } = &mut self.statistics;
        self.statistics.read_bytes = survey(&plan, &subjects, arenas, map);
    }

    fn walk(&mut self, segments: &[Vec<Segment>], known: &[Known]) {
        for (index, (segments, known)) in segments.iter().zip(known).enumerate() {
            let mut arena = std::mem::take(&mut self.statistics.arenas[index]);
            for segment in segments {
                self.walk_segment(segment, known, &mut arena);
            }
            self.statistics.arenas[index] = arena;
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
        let mut found = vec![Found::default(); self.statistics.arenas.len()];
        for &address in &self.tcaches {
            let behind = segments.partition_point(|segment| segment.start <= address);
            let Some(segment) = segments.get(behind.wrapping_sub(1)) else { continue };
            let Some(arena) = self.statistics.arenas.get_mut(segment.arena) else { continue };
            if self.heap.chunk_bytes(address.saturating_add(16)) != Some(chunk_bytes) {
                continue;
            }
            match self.heap.tcache(address) {
                Some(kept) if kept.chunks > 0 => {
                    arena.tcaches.add(kept);
                    found[segment.arena].tcaches += 1;
                }
                Some(_) => found[segment.arena].empty += 1,
                None => {}
            }
        }
        // Each of the arena's threads has one, which may be empty.
        for (arena, Found { tcaches, empty }) in self.statistics.arenas.iter_mut().zip(found) {
            let all = tcaches + empty.min(arena.threads.saturating_sub(tcaches));
            arena.tcache_metadata_bytes = all * (chunk_bytes - chunk::OVERHEAD_BYTES);
        }
    }

    /// Adds up the chunks of one segment, and to `joined_page_bytes` what a trim would return of them.
    fn walk_segment(&mut self, segment: &Segment, known: &Known, arena: &mut Arena) {
        let presence = &segment.presence;
        let tcache_bytes = self.heap.layout.tcache.chunk_bytes();
        let mut run = (0, 0);
        let walked = walk::walk(self.heap.memory, segment, |chunk| {
            let (start, end) = (chunk.address, chunk.address + chunk.bytes);
            let is_small = chunk.bytes <= chunk::MOST_FASTBIN_BYTES;
            let is_kept = is_small && known.fastbins.binary_search(&(start, end)).is_ok();
            if chunk.is_free || is_kept {
                self.statistics.map.add_free(presence, start, end);
                if run.1 != start {
                    arena.joined_page_bytes += run_page_bytes(segment, &[], run, run);
                    run.0 = start;
                }
                run.1 = end;
            }
            if chunk.is_free {
                return arena.add_free(presence, start, end);
            }
            arena.in_use.add(presence, start, end);
            if chunk.bytes == tcache_bytes && self.tcaches.len() < MOST_TCACHES {
                self.tcaches.push(start);
            }
        });
        arena.joined_page_bytes += run_page_bytes(segment, &[], run, run);
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
