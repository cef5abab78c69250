//! Free chunks by the lists of the bins. All lists are followed at once and from both ends, so that one call reads many chunks; a list too
//! long for that is left to the survey, which is good at what there is a lot of.

use super::find::ArenaState;
use super::heaps::Segment;
use super::layout::{arena, chunk};
use crate::memory::{HEAD_BYTES, Head, Memory};

/// The first bin whose chunks are all of some 11 KiB or more (`largebin_index_64` in malloc/malloc.c): few, and a large part of what is free.
const FIRST_LARGE_BIN: usize = 113;
/// Lists followed at once.
const MOST_LISTS: usize = 512;
/// Cost of a call, in chunks that it reads.
const CALL_CHUNKS: usize = 3;

/// Free chunks that the lists of one arena told.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Start and end of chunks, by address.
    pub chunks: Vec<(u64, u64)>,
    /// Whether these are all: no list was left before its end.
    pub is_whole: bool,
}

/// Follows the bins of all arenas until that has cost as much as reading `most` chunks at once, those of large chunks first.
pub fn listed(
    memory: &impl Memory,
    segments: &[&Segment],
    states: &[ArenaState],
    most: usize,
) -> Vec<Listed> {
    let mut found = vec![Listed { is_whole: true, ..Listed::default() }; states.len()];
    let mut budget = most;
    for is_large in [true, false] {
        let bins = (1..=arena::BIN_COUNT).filter(|&bin| (bin >= FIRST_LARGE_BIN) == is_large);
        let of_arena = |(arena, state): (usize, &ArenaState)| {
            bins.clone().map(|bin| List::of(arena, state, bin)).collect::<Vec<_>>()
        };
        let mut lists: Vec<List> = states.iter().enumerate().flat_map(of_arena).collect();
        lists.retain(|list| !list.is_done());
        while !lists.is_empty() && budget > 0 {
            for part in lists.chunks_mut(MOST_LISTS) {
                budget = budget.saturating_sub(step(memory, segments, part, &mut found));
            }
            lists.retain(|list| !list.is_done());
        }
        for list in lists {
            found[list.arena].is_whole = false;
        }
    }
    for listed in &mut found {
        listed.chunks.sort_unstable();
        // Chunks may overlap if the program changes the lists meanwhile.
        let mut end = 0;
        listed.chunks.retain(|chunk| {
            let is_apart = chunk.0 >= end;
            end = if is_apart { chunk.1 } else { end };
            is_apart
        });
    }
    found
}

/// A list that is followed from both ends.
struct List {
    arena: usize,
    /// Address by which the list refers to its bin.
    own: u64,
    /// Forward and backward.
    ends: [End; 2],
    is_broken: bool,
}

#[derive(Clone, Copy)]
struct End {
    /// The next chunk.
    at: u64,
    /// The one before.
    last: u64,
}

impl List {
    fn of(arena: usize, state: &ArenaState, bin: usize) -> Self {
        let (own, [first, last]) = state.bin(bin);
        let ends = [End { at: first, last: own }, End { at: last, last: own }];
        Self { arena, own, ends, is_broken: false }
    }

    fn is_done(&self) -> bool {
        let [ahead, behind] = self.ends;
        self.is_broken || ahead.at == self.own || ahead.at == behind.last
    }

    /// Takes what was read at one end; the chunk, if it is one.
    fn advance(&mut self, side: usize, head: Head) -> Option<(u64, u64)> {
        let end = &mut self.ends[side];
        let links = [head[2], head[3]];
        let bytes = head[1] & !chunk::FLAGS;
        let is_chunk = links[1 - side] == end.last
            && head[1] & chunk::IS_MMAPPED == 0
            && bytes >= chunk::LEAST_BYTES
            && bytes.is_multiple_of(chunk::ALIGNMENT);
        let found = (end.at, end.at.checked_add(bytes)?);
        *end = End { at: links[side], last: end.at };
        is_chunk.then_some(found)
    }
}

/// Follows each list by a chunk at both ends; what that cost.
fn step(
    memory: &impl Memory,
    segments: &[&Segment],
    lists: &mut [List],
    found: &mut [Listed],
) -> usize {
    let mut places = Vec::new();
    for (index, list) in lists.iter_mut().enumerate().filter(|(_, list)| !list.is_done()) {
        let [ahead, behind] = list.ends;
        let sides = if ahead.at == behind.at { &[0][..] } else { &[0, 1] };
        for &side in sides {
            let at = list.ends[side].at;
            match segment_at(segments, at).filter(|segment| has_head(segment, at)) {
                Some(_) => places.push((index, side, at)),
                None => {
                    list.is_broken = true;
                    found[list.arena].is_whole = false;
                }
            }
        }
    }
    let addresses: Vec<u64> = places.iter().map(|place| place.2).collect();
    for (&(index, side, at), head) in places.iter().zip(memory.heads(&addresses)) {
        let list = &mut lists[index];
        let chunk = head.and_then(|head| list.advance(side, head));
        let limit = segment_at(segments, at).map_or(0, Segment::limit);
        match chunk.filter(|&(_, end)| end <= limit) {
            Some(chunk) => found[list.arena].chunks.push(chunk),
            None => list.is_broken = true,
        }
        found[list.arena].is_whole &= !list.is_broken;
    }
    places.len() + CALL_CHUNKS
}

/// The one of `segments`, which are sorted by address, that has a chunk at this place.
pub fn segment_at<'a>(segments: &[&'a Segment], address: u64) -> Option<&'a Segment> {
    let behind = segments.partition_point(|segment| segment.start <= address);
    let segment = segments.get(behind.checked_sub(1)?)?;
    (segment.first_chunk <= address && address < segment.end).then_some(segment)
}

/// Whether a chunk may be at this place, and its first words may be read.
pub fn has_head(segment: &Segment, at: u64) -> bool {
    at.is_multiple_of(chunk::ALIGNMENT)
        && segment.presence.is_present(at)
        && segment.presence.is_present(at + HEAD_BYTES as u64 - 1)
}
