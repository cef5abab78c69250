//! One piece of a segment: which of its bytes are free, and how many chunks it has.
//!
//! A piece begins somewhere, not at a chunk, and what was there before looks like chunks, too. So nothing in it counts as free that does not prove
//! it: the sizes at both ends and the marks of both neighbours agree, and the chunks before and behind on its list refer to it. From such a chunk on,
//! sizes lead from chunk to chunk. Before the first of them is only memory in use, whose chunks are counted from where sizes lead on longest.

use super::find::ArenaState;
use super::heaps::Segment;
use super::layout::chunk;
use super::lists::{has_head, segment_at};
use super::runs::{page_bytes, run_page_bytes, within};
use super::sums::{Known, Piece, Sums};
use super::window::{Step, Window};
use crate::memory::Memory;
use std::cell::{Cell, RefCell};

/// Chunks in use in a row that prove each other. Such a row is neither chance nor a remnant, because chunks that were joined do not lead to one
/// another.
const PROOF_CHUNKS: u32 = 8;
/// Most bytes after pieces without any proof that are read for the end of the free chunk that each may lie in, and bytes read at once.
pub const MOST_SEARCHED_BYTES: u64 = 128 << 20;
const SEARCHED_BYTES: u64 = 64 << 10;

/// Context in which a piece is looked at.
pub struct Place<'a, M> {
    pub memory: &'a M,
    pub state: &'a ArenaState,
    /// Segments of all arenas, by address.
    pub segments: &'a [&'a Segment],
    pub known: &'a Known,
    pub has_safe_linking: bool,
    /// Bytes that are left of [`MOST_SEARCHED_BYTES`].
    pub searches: &'a Cell<u64>,
    /// Free chunks that were found around pieces.
    pub found: &'a RefCell<Vec<(u64, u64)>>,
    /// Ends of heaps that are free.
    pub tails: &'a [(u64, u64)],
}

/// Reads a piece and adds up what it holds.
pub fn look<M: Memory>(place: &Place<M>, piece: &Piece, buffer: &mut Vec<u8>) -> Sums {
    let mut look = Look::new(place, piece, buffer);
    look.sums.resident = piece.segment.presence.resident_bytes(piece.start, piece.end) as f64;
    look.scan();
    look.end_run();
    look.sums
}

/// Run of free chunks that reaches the end of a piece.
pub struct RunAtEnd {
    pub start: u64,
    /// The highest end of a chunk in the piece that may as well be the last of a tcache's list, and so in use; 0: there is none.
    pub doubted_end: u64,
}

/// Reads a piece for the run that reaches its end.
pub fn run_at_end<M: Memory>(
    place: &Place<M>,
    piece: &Piece,
    buffer: &mut Vec<u8>,
) -> Option<RunAtEnd> {
    let mut look = Look::new(place, piece, buffer);
    look.scan();
    let run = look.run.filter(|run| run.1 >= piece.end)?;
    Some(RunAtEnd { start: run.0, doubted_end: look.last_end.get() })
}

/// Kind of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    InUse,
    Free,
    Fastbin,
}

/// Proof of where chunks are.
enum Proven {
    /// A chunk starts here.
    Start(u64),
    /// A free chunk that started before the window.
    End { start: u64, end: u64 },
}

/// Surroundings of a piece without any proof.
enum Around {
    Free {
        start: u64,
        end: u64,
    },
    InUse,
    /// Too much would have to be read.
    Unknown,
}

struct Look<'a, M> {
    place: &'a Place<'a, M>,
    piece: &'a Piece<'a>,
    window: Window<'a>,
    sums: Sums,
    /// Free chunks and those of fastbins that touch.
    run: Option<(u64, u64)>,
    /// The highest end of a chunk whose link leads nowhere.
    last_end: Cell<u64>,
}

impl<'a, M: Memory> Look<'a, M> {
    fn new(place: &'a Place<'a, M>, piece: &'a Piece<'a>, buffer: &'a mut Vec<u8>) -> Self {
        let window = Window::of(place.memory, piece, buffer);
        let last_end = Cell::default();
        Self { place, piece, window, sums: Sums::default(), run: None, last_end }
    }

    fn scan(&mut self) {
        let mut from = self.window.start_of_chunks;
        let mut boundary = self.first_known(from);
        while from < self.piece.end {
            if let Some(at) = boundary.take() {
                from = self.walk(at).map_or(u64::MAX, |torn| torn + chunk::ALIGNMENT);
                continue;
            }
            boundary = match self.next_proven(from) {
                Some(Proven::Start(at)) => {
                    self.lead_in(from, Some(at));
                    Some(at)
                }
                Some(Proven::End { start, end }) => {
                    self.add(start, end, Kind::Free);
                    Some(end)
                }
                None => return self.lead_in(from, None),
            };
        }
    }

    /// Returns the start of a chunk, if the beginning of the piece is known.
    fn first_known(&mut self, from: u64) -> Option<u64> {
        let known = self.place.known;
        if self.piece.has_chunk_at_start {
            // A run may end here, or go on.
            let run = within(&known.runs, from.saturating_sub(1), from).first();
            self.run = run.map(|run| (run.0, from));
            return Some(from);
        }
        for (chunks, kind) in [(&known.free, Kind::Free), (&known.fastbins, Kind::Fastbin)] {
            if let Some(&(start, end)) = within(chunks, from, from + 1).first() {
                self.add(start, end, kind);
                return Some(end);
            }
        }
        None
    }

    /// Adds the chunks from `at`, a chunk, to the end of the piece; where sizes do not lead on, if so.
    fn walk(&mut self, mut at: u64) -> Option<u64> {
        while at < self.piece.end && at < self.piece.segment.limit() {
            let (next, is_free) = match self.window.step(at) {
                Step::End => return None,
                Step::Torn => return Some(at),
                Step::Chunk { next, is_free } => (next, is_free),
            };
            let is_free = is_free.unwrap_or_else(|| self.listed(at) == Some(next));
            self.add(at, next, if is_free { Kind::Free } else { self.kind_in_use(at, next) });
            at = next;
        }
        None
    }

    /// Adds what is before `anchor`, the first chunk that is free for sure, or all of the piece.
    fn lead_in(&mut self, from: u64, anchor: Option<u64>) {
        let target = anchor.unwrap_or(self.piece.end);
        let (steps, first) = self.window.longest(from, target, anchor.is_some());
        let is_proven = anchor.is_some() || steps >= PROOF_CHUNKS || self.place.known.is_whole;
        if !is_proven {
            match self.chunk_around() {
                Around::Free { start, end } => return self.add(start, end, Kind::Free),
                Around::Unknown => self.sums.unresolved = self.sums.resident,
                Around::InUse => {}
            }
        }
        if steps == 0 {
            return;
        }
        let mut at = first;
        while at < target {
            let Step::Chunk { next, .. } = self.window.step(at) else { return };
            self.add(at, next, self.kind_in_use(at, next));
            at = next;
        }
    }

    /// Returns the surroundings of the whole piece, by where a free chunk ends or starts after it.
    fn chunk_around(&self) -> Around {
        let segment = self.piece.segment;
        let mut buffer = Vec::new();
        let is_around =
            |found: &&(u64, u64)| found.0 <= self.piece.start && found.1 > self.piece.start;
        if let Some(&(start, end)) = self.place.found.borrow().iter().find(is_around) {
            return Around::Free { start, end };
        }
        let limit = (self.piece.end + self.place.searches.get()).min(segment.limit());
        let mut at = self.piece.end;
        while at < limit {
            let end = (at + SEARCHED_BYTES).min(limit);
            let piece = Piece { start: at, end, has_chunk_at_start: true, ..*self.piece };
            let window = Window::of(self.place.memory, &piece, &mut buffer);
            self.place.searches.set(self.place.searches.get().saturating_sub(end - at));
            at = at.next_multiple_of(chunk::ALIGNMENT);
            while at < end {
                if let Some(start) = window.start_below(at, self.piece.start + 1)
                    && self.listed(start) == Some(at)
                {
                    self.place.found.borrow_mut().push((start, at));
                    return Around::Free { start, end: at };
                }
                if window.may_be_free(at) && self.listed(at).is_some() {
                    return Around::InUse;
                }
                at += chunk::ALIGNMENT;
            }
        }
        if limit == segment.limit() { Around::InUse } else { Around::Unknown }
    }

    /// The first place from `from` on where a chunk starts or ends that is free for sure, or one starts that is in a fastbin.
    fn next_proven(&self, from: u64) -> Option<Proven> {
        let mut at = from.next_multiple_of(chunk::ALIGNMENT);
        let known = self.place.known;
        let fastbins = within(&known.fastbins, at, self.piece.end);
        let kept = fastbins.iter().map(|chunk| chunk.0).find(|&start| start >= at);
        while at < self.piece.end {
            if !known.is_whole
                && let Some(start) = self.window.start_below(at, self.window.start_of_chunks)
                && self.listed(start) == Some(at)
            {
                return Some(Proven::End { start, end: at });
            }
            if kept == Some(at) || self.window.may_be_free(at) && self.listed(at).is_some() {
                return Some(Proven::Start(at));
            }
            at += chunk::ALIGNMENT;
        }
        None
    }

    /// The end of the chunk at `at`, if it is free: both neighbours on its list refer to it.
    fn listed(&self, at: u64) -> Option<u64> {
        let Place { memory, state, segments, known, .. } = self.place;
        if let [known] = within(&known.free, at, at + 1)
            && known.0 == at
        {
            return Some(known.1);
        }
        let segment = self.piece.segment;
        if at < segment.first_chunk || !has_head(segment, at) {
            return None;
        }
        let head = match self.window.head(at) {
            Some(head) => head,
            None => memory.heads(&[at])[0]?,
        };
        let links = [head[2], head[3]];
        let may_be_read = |&link: &u64| {
            state.is_bin(link) || segment_at(segments, link).is_some_and(|of| has_head(of, link))
        };
        if !links.iter().all(may_be_read) {
            return None;
        }
        let neighbours = memory.heads(&links);
        let is_listed = neighbours[0].is_some_and(|next| next[3] == at)
            && neighbours[1].is_some_and(|last| last[2] == at);
        let end = at.checked_add(head[1] & !chunk::FLAGS)?;
        (is_listed && end <= segment.limit()).then_some(end)
    }

    /// Whether a chunk that the allocator counts as in use lies in a fastbin.
    fn kind_in_use(&self, at: u64, next: u64) -> Kind {
        let known = self.place.known;
        let is_known = || within(&known.fastbins, at, at + 1).first() == Some(&(at, next));
        let is_one = if known.has_all_fastbins {
            !known.fastbins.is_empty() && is_known()
        } else {
            next - at <= chunk::MOST_FASTBIN_BYTES && (is_known() || self.has_link(at, next))
        };
        if is_one { Kind::Fastbin } else { Kind::InUse }
    }

    /// Whether its first word is a link to another chunk of its size, or, protected, to none.
    fn has_link(&self, at: u64, next: u64) -> bool {
        let Some(word) = self.window.word(at + 16) else { return false };
        let mask = if self.place.has_safe_linking { (at + 16) >> 12 } else { 0 };
        let link = word ^ mask;
        // The last one of a list.
        if link == 0 && mask != 0 {
            self.last_end.set(self.last_end.get().max(next));
            return true;
        }
        let may_be =
            |segment: &Segment| link.is_multiple_of(chunk::ALIGNMENT) && has_head(segment, link);
        // Blocks are mostly freed in the order of their addresses, or against it.
        let head = || self.window.head(link).or_else(|| self.place.memory.heads(&[link])[0]);
        segment_at(self.place.segments, link).is_some_and(may_be)
            && head().is_some_and(|head| head[1] & !chunk::FLAGS == next - at)
    }

    fn add(&mut self, start: u64, next: u64, kind: Kind) {
        let (from, end) = (start.max(self.piece.start), next.min(self.piece.end));
        if kind == Kind::InUse {
            self.end_run();
        } else {
            match self.run.as_mut().filter(|run| run.1 == start) {
                Some(run) => run.1 = next,
                None => {
                    self.end_run();
                    self.run = Some((start, next));
                }
            }
        }
        let is_first = f64::from(u8::from((self.piece.start..self.piece.end).contains(&start)));
        if from >= end {
            return;
        }
        let bytes = (end - from) as f64;
        match kind {
            Kind::Free => {
                let presence = &self.piece.segment.presence;
                let part = (self.piece.start, self.piece.end);
                self.sums.free += bytes;
                self.sums.free_resident += presence.resident_bytes(from, end) as f64;
                self.sums.free_pages += page_bytes(presence, (start, next), part) as f64;
                self.sums.free_chunks += is_first;
                self.sums.largest_free = self.sums.largest_free.max(next - start);
            }
            Kind::Fastbin => {
                self.sums.fastbins += bytes;
                self.sums.fastbin_chunks += is_first;
                self.sums.chunks_in_use += is_first;
            }
            Kind::InUse => self.sums.chunks_in_use += is_first,
        }
    }

    fn end_run(&mut self) {
        let Some((start, mut end)) = self.run.take() else { return };
        // Chunks after the piece are known at most from the lists.
        if end >= self.piece.end
            && let Some(run) = within(&self.place.known.runs, end, end + 1).first()
        {
            end = run.1;
        }
        let part = (self.piece.start, self.piece.end);
        self.sums.run_pages +=
            run_page_bytes(self.piece.segment, self.place.tails, (start, end), part) as f64;
    }
}
