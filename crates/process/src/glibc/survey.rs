//! How much of the arenas is in use and how much is free: what the lists of free chunks tell, and of the rest an estimate from a random part.
//!
//! The arenas without their large free chunks are cut into pieces, and these, by address, into strata. The same number of pieces is drawn from each
//! stratum. Only what the lists did not tell is estimated. More pieces are drawn until the intervals are as narrow as [`ENOUGH_SHARE`] says.

use super::find::ArenaState;
use super::heaps::Segment;
use super::map::HeapMap;
use super::piece::{MOST_SEARCHED_BYTES, Place, look};
use super::runs::{run_page_bytes, within};
use super::statistics::{Arena, Space, Spreads};
use super::strata::{Draw, Spread};
use super::sums::{Known, Piece, Sums, known_sums};
use super::tails::{self, Tails};
use crate::memory::Memory;
use std::cell::{Cell, RefCell};

/// Bytes of a piece.
pub const PIECE_BYTES: u64 = 64 << 10;
/// A known free chunk of so many bytes is in no piece.
const LARGE_BYTES: u64 = 16 << 10;
/// Strata of all arenas together, and pieces drawn of each at first.
const STRATA: usize = 256;
const FIRST_DRAWN: usize = 2;
/// Most pieces that are read: one in `MOST_SHARE` of all, clamped between the two numbers of `MOST_DRAWN`.
const MOST_SHARE: usize = 16;
const MOST_DRAWN: (usize, usize) = (2048, 8192);
/// By how much the sizes of an arena's chunks in use may be off where these were counted before the first free one of a piece: a few chunks.
const COUNT_BYTES: f64 = 4096.0;
/// Half the width of the 95% interval that is narrow enough, of all arenas together.
const ENOUGH_SHARE: f64 = 0.005;

/// Arena that is surveyed, with its segments and what the lists told of it.
pub struct Subject<'a> {
    pub state: &'a ArenaState,
    pub segments: &'a [Segment],
    pub known: &'a Known,
}

/// How to survey.
pub struct Plan<'a, M> {
    pub memory: &'a M,
    /// Segments of all arenas, by address.
    pub segments: &'a [&'a Segment],
    pub has_safe_linking: bool,
    /// Pieces that are drawn, if that is not left to the survey.
    pub pieces: Option<usize>,
}

struct Stratum<'a> {
    subject: usize,
    /// In the order in which they are drawn.
    pieces: Vec<&'a Piece<'a>>,
    /// Sums over the pieces read so far, in the same order, without what is known from the lists.
    rests: Vec<Sums>,
}

/// Divides the chunks of the arenas; how many bytes of them were read.
pub fn survey(
    plan: &Plan<impl Memory>,
    subjects: &[Subject],
    arenas: &mut [Arena],
    map: &mut HeapMap,
) -> u64 {
    let pieces: Vec<Vec<Piece>> = subjects.iter().map(cut_all).collect();
    let tails = tails(plan, subjects, &pieces);
    let mut strata = strata(&pieces);
    let all: usize = pieces.iter().map(Vec::len).sum();
    let most = plan.pieces.unwrap_or((all / MOST_SHARE).clamp(MOST_DRAWN.0, MOST_DRAWN.1));
    let enough = ENOUGH_SHARE * arenas.iter().map(|arena| arena.system_bytes as f64).sum::<f64>();
    let mut each = match plan.pieces {
        Some(pieces) => pieces.div_ceil(strata.len().max(1)).max(FIRST_DRAWN),
        None => FIRST_DRAWN,
    };
    loop {
        draw(plan, subjects, &tails, &mut strata, each);
        let spreads: Spreads = (0..subjects.len())
            .map(|subject| {
                Estimate::of(subject, &strata, subjects[subject].known, &tails[subject]).spreads
            })
            .sum();
        let drawn: usize = strata.iter().map(|stratum| stratum.rests.len()).sum();
        if spreads.widest_half_width_95() <= enough || drawn >= most || drawn == all {
            break;
        }
        // No more than may be read in all.
        each = (each * 2).min((most / strata.len().max(1)).max(each + 1));
    }
    for (index, (subject, arena)) in subjects.iter().zip(arenas).enumerate() {
        add_known(subject, &tails[index].ends, arena, map);
        let estimate = Estimate::of(index, &strata, subject.known, &tails[index]);
        settle(subject, &estimate, arena);
    }
    paint(map, subjects, &strata);
    let drawn = strata.iter().flat_map(|stratum| stratum.pieces.iter().take(stratum.rests.len()));
    drawn.map(|piece| piece.segment.presence.resident_bytes(piece.start, piece.end)).sum()
}

impl<M> Plan<'_, M> {
    fn place<'a>(
        &'a self,
        subject: &'a Subject,
        tails: &'a [(u64, u64)],
        searches: &'a Cell<u64>,
        found: &'a RefCell<Vec<(u64, u64)>>,
    ) -> Place<'a, M> {
        let Self { memory, segments, has_safe_linking, .. } = *self;
        let Subject { state, known, .. } = *subject;
        Place { memory, state, segments, known, has_safe_linking, searches, found, tails }
    }
}

/// The free ends of the heaps of each arena, where the lists do not tell them.
fn tails(plan: &Plan<impl Memory>, subjects: &[Subject], pieces: &[Vec<Piece>]) -> Vec<Tails> {
    let (searches, found) = (Cell::new(0), RefCell::new(Vec::new()));
    let left = Cell::new(tails::MOST_READ_BYTES);
    let of = |(subject, pieces): (&Subject, &Vec<Piece>)| {
        let is_known = subject.known.is_whole && subject.known.has_all_fastbins;
        if is_known {
            return Tails::default();
        }
        let place = plan.place(subject, &[], &searches, &found);
        tails::read(&place, subject.segments, pieces, &left)
    };
    subjects.iter().zip(pieces).map(of).collect()
}

fn cut_all<'a>(subject: &Subject<'a>) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for segment in subject.segments {
        cut(segment, &subject.known.free, &mut pieces);
    }
    pieces
}

/// Cuts what is between large free chunks into pieces.
fn cut<'a>(segment: &'a Segment, free: &[(u64, u64)], pieces: &mut Vec<Piece<'a>>) {
    let limit = segment.limit();
    let mut at = segment.first_chunk;
    let large = within(free, at, limit).iter().filter(|chunk| chunk.1 - chunk.0 >= LARGE_BYTES);
    for &(start, end) in large.chain([&(limit, limit)]) {
        let mut has_chunk_at_start = true;
        while at < start {
            let end = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(start);
            pieces.push(Piece { segment, start: at, end, has_chunk_at_start });
            at = end;
            has_chunk_at_start = false;
        }
        at = end;
    }
}

/// Divides the pieces of each arena, in the order of their addresses, into strata of about equal numbers.
fn strata<'a>(pieces: &'a [Vec<Piece<'a>>]) -> Vec<Stratum<'a>> {
    let all: usize = pieces.iter().map(Vec::len).sum();
    let mut draw = Draw::new();
    let mut strata = Vec::new();
    for (subject, pieces) in pieces.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
        let count = (pieces.len() * STRATA / all).clamp(1, pieces.len().div_ceil(FIRST_DRAWN));
        for index in 0..count {
            let first = pieces.len() * index / count;
            let behind = pieces.len() * (index + 1) / count;
            let mut order: Vec<usize> = (first..behind).collect();
            draw.shuffle(&mut order);
            let pieces = order.into_iter().map(|index| &pieces[index]).collect();
            strata.push(Stratum { subject, pieces, rests: Vec::new() });
        }
    }
    strata
}

/// Reads of each stratum as many pieces as are missing from `each`.
fn draw(
    plan: &Plan<impl Memory>,
    subjects: &[Subject],
    tails: &[Tails],
    strata: &mut [Stratum],
    each: usize,
) {
    let mut buffer = Vec::new();
    let found = RefCell::new(Vec::new());
    let searches = Cell::new(MOST_SEARCHED_BYTES);
    // From the last on: of the pieces in a large free chunk, the one nearest to its end finds it for all.
    for stratum in strata.iter_mut().rev() {
        let subject = &subjects[stratum.subject];
        let tails = &tails[stratum.subject].ends;
        let place = plan.place(subject, tails, &searches, &found);
        for &piece in stratum.pieces.iter().take(each).skip(stratum.rests.len()) {
            let sums = look(&place, piece, &mut buffer);
            stratum.rests.push(sums.without(&known_sums(piece, subject.known, tails)));
        }
    }
}

/// Estimate of what the lists of one arena did not tell.
struct Estimate {
    rest: Sums,
    spreads: Spreads,
}

impl Estimate {
    fn of(subject: usize, strata: &[Stratum], known: &Known, tails: &Tails) -> Self {
        let strata: Vec<&Stratum> =
            strata.iter().filter(|stratum| stratum.subject == subject).collect();
        let drawn: Sums = strata.iter().flat_map(|stratum| &stratum.rests).copied().sum();
        let ratio = drawn.scaled(1.0 / drawn.resident.max(1.0));
        let all: f64 = strata.iter().flat_map(|stratum| &stratum.pieces).map(resident).sum();
        let mut rest = ratio.scaled(all);
        for stratum in &strata {
            let weight = stratum.pieces.len() as f64 / stratum.rests.len().max(1) as f64;
            let off = stratum.rests.iter().map(|rest| rest.without(&ratio.scaled(rest.resident)));
            rest = [rest, off.sum::<Sums>().scaled(weight)].into_iter().sum();
        }
        let measure = |measure: fn(&Sums) -> f64, is_known: bool| {
            let off = |rest: &Sums| measure(rest) - measure(&ratio) * rest.resident;
            let of_stratum = |stratum: &&Stratum| {
                Spread::of_stratum(stratum.pieces.len(), stratum.rests.iter().map(off))
            };
            let all = strata.iter().map(|stratum| stratum.pieces.len()).sum();
            let rests = strata.iter().flat_map(|stratum| &stratum.rests);
            let furthest = rests.clone().map(|rest| off(rest).abs()).fold(0.0, f64::max);
            let unseen = Spread::of_unseen(all, rests.count(), furthest);
            // If the lists told all free chunks, no error is left unseen.
            let unseen = if is_known && furthest == 0.0 { Spread::default() } else { unseen };
            strata.iter().map(of_stratum).sum::<Spread>() + unseen
        };
        // May be free as well as in use.
        let unresolved = Spread::of_count(rest.unresolved.max(0.0));
        let is_known = known.is_whole && known.has_all_fastbins;
        let kept = measure(|rest| rest.free + rest.fastbins, is_known);
        let spreads = Spreads {
            live: measure(Sums::not_live, false).max(kept)
                + Spread::of_count(COUNT_BYTES)
                + unresolved,
            free: measure(|rest| rest.free_resident + rest.fastbins, is_known).max(kept)
                + unresolved,
            releasable: measure(|rest| rest.run_pages, is_known)
                + unresolved
                + Spread::of_count(tails.unknown_bytes as f64),
        };
        Self { rest, spreads }
    }
}

fn resident(piece: &&Piece) -> f64 {
    piece.segment.presence.resident_bytes(piece.start, piece.end) as f64
}

/// Adds what needs no estimate.
fn add_known(subject: &Subject, tails: &[(u64, u64)], arena: &mut Arena, map: &mut HeapMap) {
    let known = subject.known;
    for segment in subject.segments {
        let presence = &segment.presence;
        let limit = segment.limit();
        arena.metadata_bytes += presence.resident_bytes(segment.start, segment.first_chunk);
        arena.in_use.add(presence, segment.first_chunk, limit);
        if let Some(top) = segment.top {
            arena.top.add(presence, top, segment.end);
            map.add_free(presence, top, segment.end);
        }
        for &(start, end) in within(&known.free, segment.first_chunk, limit) {
            arena.add_free(presence, start, end);
            map.add_free(presence, start, end);
        }
        for &(start, end) in within(&known.fastbins, segment.first_chunk, limit) {
            map.add_free(presence, start, end);
        }
        for &run in within(&known.runs, segment.first_chunk, limit) {
            arena.joined_page_bytes += run_page_bytes(segment, tails, run, run);
        }
    }
}

/// Adds what is estimated. All that is neither free nor top is in use.
fn settle(subject: &Subject, estimate: &Estimate, arena: &mut Arena) {
    let rest = &estimate.rest;
    let whole = |value: f64| value.max(0.0).round() as u64;
    let added = |known: u64, rest: f64| whole(known as f64 + rest);
    arena.free = Space {
        chunks: added(arena.free.chunks, rest.free_chunks),
        bytes: added(arena.free.bytes, rest.free).min(arena.in_use.bytes),
        resident_bytes: added(arena.free.resident_bytes, rest.free_resident)
            .min(arena.in_use.resident_bytes),
    };
    arena.free_page_bytes =
        added(arena.free_page_bytes, rest.free_pages).min(arena.free.resident_bytes);
    arena.joined_page_bytes = added(arena.joined_page_bytes, rest.run_pages);
    arena.largest_free_bytes = arena.largest_free_bytes.max(rest.largest_free);
    if !subject.known.has_all_fastbins {
        arena.fastbins.bytes = added(arena.fastbins.bytes, rest.fastbins);
        arena.fastbins.resident_bytes = arena.fastbins.bytes;
        arena.fastbins.chunks = added(arena.fastbins.chunks, rest.fastbin_chunks);
        arena.fastbins.is_cut = false;
    }
    arena.in_use = Space {
        chunks: whole(rest.chunks_in_use),
        bytes: arena.in_use.bytes - arena.free.bytes,
        resident_bytes: arena.in_use.resident_bytes - arena.free.resident_bytes,
    };
    arena.spreads = Some(estimate.spreads);
}

/// Divides what is not known of each cell as its own pieces say, or as the whole arena where none of a cell was read.
fn paint(map: &mut HeapMap, subjects: &[Subject], strata: &[Stratum]) {
    let mut own = vec![Sums::default(); map.cells.len()];
    let mut whole = vec![Sums::default(); subjects.len()];
    for stratum in strata {
        for (piece, rest) in stratum.pieces.iter().zip(&stratum.rests) {
            let cell = map.first_at(piece.start);
            own[cell] = [own[cell], *rest].into_iter().sum();
            whole[stratum.subject] = [whole[stratum.subject], *rest].into_iter().sum();
        }
    }
    for (subject, whole) in subjects.iter().zip(&whole) {
        for segment in subject.segments {
            let cells = map.first_at(segment.start)..map.first_at(segment.end);
            for (cell, own) in map.cells[cells.clone()].iter_mut().zip(&own[cells]) {
                let known = if own.resident > 0.0 { own } else { whole };
                let share = (known.free_resident + known.fastbins) / known.resident.max(1.0);
                let all = cell.resident_bytes as f64;
                cell.free_bytes = (cell.free_bytes + all * share.max(0.0)).min(all);
            }
        }
    }
}
