//! How much of an arena is in use and how much is free, from pieces at equal distances, walked from where sizes lead on to their end.
//!
//! Large free chunks are known exactly, by their bins, and no piece lies in one: left-over sizes inside of them would look like chunks. The rest,
//! A bytes, is cut into pieces of which every k-th is read. With f free of w walked bytes in a piece, A·Σf/Σw estimates what is free, with the
//! variance (1 − 1/k)·A²·Σ(f − r·w)²/((n − 1)·n·w̄²), r = Σf/Σw (Cochran, Sampling Techniques, 2.11: the ratio estimator). k is halved until
//! the interval is as narrow as [`ENOUGH_SHARE`] says, or every piece was read.

use super::bins::LargeFree;
use super::heaps::Segment;
use super::map::HeapMap;
use super::piece::{Piece, Sums, is_proven, walk_piece};
use super::statistics::{Arena, Space};
use crate::memory::Memory;
use std::collections::BTreeMap;

/// Bytes of a piece.
const PIECE_BYTES: u64 = 64 << 10;
/// Pieces read at first, of all arenas together, and at least of each.
const FIRST_PIECES: f64 = 512.0;
const LEAST_PIECES: usize = 16;
/// Half the width of the 95 % interval that is narrow enough, of all arenas together.
const ENOUGH_SHARE: f64 = 0.005;
/// Where not all large free chunks are known: the share of pieces without a free chunk that is on a list, beyond which every chunk must be walked.
const MOST_UNPROVEN_SHARE: f64 = 0.1;
/// 97.5 % quantile of the standard normal distribution.
const NORMAL_QUANTILE_975: f64 = 1.959964;

/// Divides the chunks of one arena's `segments`; `share` is its part of all. False: there is no telling chunks from what they left behind.
pub fn survey(
    memory: &impl Memory,
    segments: &[Segment],
    large_free: &LargeFree,
    share: f64,
    arena: &mut Arena,
    map: &mut HeapMap,
) -> bool {
    let mut pieces = Vec::new();
    for segment in segments {
        cut(segment, &large_free.chunks, &mut pieces);
    }
    let mut area = Sums::default();
    for piece in &pieces {
        area.add_in_use(piece.segment, piece.start, piece.end);
    }
    let first = ((FIRST_PIECES * share) as usize).max(LEAST_PIECES);
    let first_step = (pieces.len() / first).max(1).next_power_of_two();
    let enough = ENOUGH_SHARE * arena.system_bytes as f64 / share.sqrt();
    let (mut step, mut unproven) = (first_step, 0);
    let mut read: BTreeMap<usize, Sums> = BTreeMap::new();
    let mut buffer = Vec::new();
    loop {
        // Every second one of those of the next smaller step.
        for index in (first_step / 2 % step..pieces.len()).step_by(step) {
            let piece = &pieces[index];
            read.entry(index).or_insert_with(|| {
                let sums = walk_piece(memory, piece, &mut buffer);
                let is_proven = large_free.is_whole || is_proven(memory, piece.segment, &sums);
                unproven += u64::from(!is_proven);
                sums
            });
        }
        if unproven as f64 > MOST_UNPROVEN_SHARE * read.len() as f64 {
            return false;
        }
        let mut sum = Sums::default();
        read.values().for_each(|piece| sum.add(piece));
        let half_width = half_width(&read, pieces.len(), &sum, &area);
        if step > 1 && half_width > enough {
            step /= 2;
            continue;
        }
        for segment in segments {
            add_known(segment, &large_free.chunks, arena, map);
        }
        arena.half_width_95_bytes = Some(half_width);
        settle(arena, &area, &sum);
        paint(map, segments, &pieces, &read, &sum);
        return true;
    }
}

/// Cuts what is between large free chunks into pieces.
fn cut<'a>(segment: &'a Segment, large_free: &[(u64, u64)], pieces: &mut Vec<Piece<'a>>) {
    let limit = segment.top.unwrap_or(segment.end);
    let mut at = segment.first_chunk;
    for &(start, end) in within(segment, large_free).iter().chain([&(limit, limit)]) {
        let mut has_chunk_at_start = true;
        while at < start {
            let end = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(start);
            pieces.push(Piece { segment, start: at, end, has_chunk_at_start });
            (at, has_chunk_at_start) = (end, false);
        }
        at = end;
    }
}

/// Those of the large free chunks that lie in the segment.
fn within<'a>(segment: &Segment, large_free: &'a [(u64, u64)]) -> &'a [(u64, u64)] {
    let limit = segment.top.unwrap_or(segment.end);
    let first = large_free.partition_point(|&(start, _)| start < segment.first_chunk);
    let last = large_free.partition_point(|&(_, end)| end <= limit);
    &large_free[first..last.max(first)]
}

/// Adds what needs no estimate.
fn add_known(segment: &Segment, large_free: &[(u64, u64)], arena: &mut Arena, map: &mut HeapMap) {
    let presence = &segment.presence;
    arena.metadata_bytes += presence.resident_bytes(segment.start, segment.first_chunk);
    if let Some(top) = segment.top {
        arena.top.add(presence, top, segment.end);
        map.add_free(presence, top, segment.end);
    }
    for &(start, end) in within(segment, large_free) {
        arena.add_free(presence, start, end);
        map.add_free(presence, start, end);
    }
}

/// Half the width of the 95 % interval of what is free, in bytes.
fn half_width(read: &BTreeMap<usize, Sums>, pieces: usize, sum: &Sums, area: &Sums) -> f64 {
    let count = read.len() as f64;
    let ratio = sum.free / sum.walked.max(1.0);
    let residual = |sums: &Sums| (sums.free - ratio * sums.walked).powi(2);
    let residuals: f64 = read.values().map(residual).sum();
    let unread = 1.0 - count / pieces.max(1) as f64;
    let mean = sum.walked / count.max(1.0);
    let variance = unread * (area.walked / mean.max(1.0)).powi(2) * residuals
        / ((count - 1.0).max(1.0) * count.max(1.0));
    NORMAL_QUANTILE_975 * variance.sqrt()
}

/// Divides `area` as what was walked of it, `sum`, is divided.
fn settle(arena: &mut Arena, area: &Sums, sum: &Sums) {
    let of_bytes = area.walked / sum.walked.max(1.0);
    let of_resident = area.walked_resident / sum.walked_resident.max(1.0);
    let whole = |value: f64| value.round() as u64;
    let (free, free_resident) =
        (whole(sum.free * of_bytes), whole(sum.free_resident * of_resident));
    let free_chunks = whole(sum.free_chunks * of_bytes);
    arena.free.chunks += free_chunks;
    arena.free.bytes += free;
    arena.free.resident_bytes += free_resident;
    arena.free_page_bytes += whole(sum.free_pages * of_resident);
    arena.largest_free_bytes = arena.largest_free_bytes.max(sum.largest_free);
    arena.in_use = Space {
        chunks: whole(sum.chunks * of_bytes).saturating_sub(free_chunks),
        bytes: whole(area.walked).saturating_sub(free),
        resident_bytes: whole(area.walked_resident).saturating_sub(free_resident),
    };
}

/// Divides each cell as its own pieces say, or as the whole arena where none of a cell was read.
fn paint(
    map: &mut HeapMap,
    segments: &[Segment],
    pieces: &[Piece],
    read: &BTreeMap<usize, Sums>,
    sum: &Sums,
) {
    let mut own = vec![Sums::default(); map.cells.len()];
    for (&index, sums) in read {
        own[map.first_at(pieces[index].start)].add(sums);
    }
    for segment in segments {
        let cells = map.first_at(segment.start)..map.first_at(segment.end);
        for (cell, own) in map.cells[cells.clone()].iter_mut().zip(&own[cells]) {
            let known = if own.walked_resident > 0.0 { own } else { sum };
            let share = known.free_resident / known.walked_resident.max(1.0);
            cell.free_bytes += (cell.resident_bytes as f64 - cell.free_bytes).max(0.0) * share;
        }
    }
}
