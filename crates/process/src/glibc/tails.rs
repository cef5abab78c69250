//! The free ends of threads' heaps. A trim joins what is free there with the top, and returns nothing of it. A piece in the middle of such an end
//! does not tell, so it is read from the top down to the first block in use.

use super::heaps::Segment;
use super::piece::{Place, RunAtEnd, run_at_end};
use super::runs::within;
use super::sums::{Known, Piece};
use crate::memory::Memory;
use std::cell::Cell;

/// Most bytes that are read for them, of all arenas together.
pub const MOST_READ_BYTES: u64 = 128 << 20;

/// Ends of the heaps of one arena.
#[derive(Default)]
pub struct Tails {
    /// From the first byte that is free to the top, by address.
    pub ends: Vec<(u64, u64)>,
    /// Resident bytes that may be at such an end or not.
    pub unknown_bytes: u64,
}

/// Reads the ends of these segments. `pieces` are theirs, by address; `left` is what is left of [`MOST_READ_BYTES`].
pub fn read<'a, M: Memory>(
    place: &Place<M>,
    segments: &[Segment],
    pieces: &[Piece<'a>],
    left: &Cell<u64>,
) -> Tails {
    let mut tails = Tails::default();
    let mut buffer = Vec::new();
    for segment in segments.iter().filter(|segment| !segment.is_main) {
        let Some(top) = segment.top else { continue };
        let (mut start, mut doubted_end) = (top, 0);
        loop {
            let listed = run_below(place.known, start);
            let listed = listed.map(|start| RunAtEnd { start, doubted_end: 0 });
            let run = listed.or_else(|| run_in_piece(place, pieces, start, left, &mut buffer));
            let Some(run) = run else { break };
            doubted_end = doubted_end.max(run.doubted_end.min(start));
            start = run.start;
        }
        let resident = |end: u64| segment.presence.resident_bytes(start, end.max(start));
        tails.unknown_bytes += resident(doubted_end);
        if left.get() == 0 {
            tails.unknown_bytes += segment.presence.resident_bytes(segment.first_chunk, start);
        }
        if start < top {
            tails.ends.push((start, top));
        }
    }
    tails
}

/// Returns the start of the run that ends at `end`, by the lists of free chunks.
fn run_below(known: &Known, end: u64) -> Option<u64> {
    let run = within(&known.runs, end - 1, end).first()?;
    (run.1 >= end && run.0 < end).then_some(run.0)
}

/// Returns the run that ends at `end`, as far down as the start of the piece that `end` is in; `None`: the chunk before `end` is in use, or no
/// more may be read.
fn run_in_piece<M: Memory>(
    place: &Place<M>,
    pieces: &[Piece],
    end: u64,
    left: &Cell<u64>,
    buffer: &mut Vec<u8>,
) -> Option<RunAtEnd> {
    let piece = pieces[..pieces.partition_point(|piece| piece.start < end)].last()?;
    if piece.end < end || left.get() == 0 {
        return None;
    }
    left.set(left.get().saturating_sub(end - piece.start));
    let run = run_at_end(place, &Piece { end, ..*piece }, buffer)?;
    Some(RunAtEnd { start: run.start.max(piece.start), ..run }).filter(|run| run.start < end)
}
