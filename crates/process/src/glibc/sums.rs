//! Sums over a piece of a segment, in figures that can be added up, and the part of the sums that the lists of free chunks told.

use super::heaps::Segment;
use super::layout::chunk;
use super::runs::{page_bytes, run_page_bytes, within};
use std::iter::Sum;

/// A part of a segment without large free chunks. It begins and ends on a page, or where chunks do.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    pub segment: &'a Segment,
    pub start: u64,
    pub end: u64,
    /// Whether a chunk starts at its start.
    pub has_chunk_at_start: bool,
}

/// Free chunks that the lists told: start and end of each, by address, without overlaps.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub free: Vec<(u64, u64)>,
    /// Whether these are all.
    pub is_whole: bool,
    pub fastbins: Vec<(u64, u64)>,
    /// Whether these are all.
    pub has_all_fastbins: bool,
    /// Both, joined where they touch.
    pub runs: Vec<(u64, u64)>,
}

/// Sums over a piece. Bytes are those in the piece, chunks those that start in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    pub resident: f64,
    pub free: f64,
    pub free_resident: f64,
    /// Whole pages of free chunks.
    pub free_pages: f64,
    /// Whole pages after free chunks and those of fastbins were joined.
    pub run_pages: f64,
    pub fastbins: f64,
    pub free_chunks: f64,
    /// With those in fastbins.
    pub chunks_in_use: f64,
    pub fastbin_chunks: f64,
    /// Resident bytes of pieces in which nothing proves what they are.
    pub unresolved: f64,
    pub largest_free: u64,
}

impl Sums {
    /// Returns the resident bytes that are not the program's: free, or the sizes in front of its blocks.
    pub fn not_live(&self) -> f64 {
        let heads = self.chunks_in_use - self.fastbin_chunks;
        self.free_resident + self.fastbins + heads * chunk::OVERHEAD_BYTES as f64
    }

    /// Each figure times `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        self.with(self, |value, _| value * factor)
    }

    /// The difference. The resident bytes and the largest chunk are not differences.
    pub fn without(&self, other: &Self) -> Self {
        Self { resident: self.resident, ..self.with(other, |own, other| own - other) }
    }

    fn with(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            resident: f(self.resident, other.resident),
            free: f(self.free, other.free),
            free_resident: f(self.free_resident, other.free_resident),
            free_pages: f(self.free_pages, other.free_pages),
            run_pages: f(self.run_pages, other.run_pages),
            fastbins: f(self.fastbins, other.fastbins),
            free_chunks: f(self.free_chunks, other.free_chunks),
            chunks_in_use: f(self.chunks_in_use, other.chunks_in_use),
            fastbin_chunks: f(self.fastbin_chunks, other.fastbin_chunks),
            unresolved: f(self.unresolved, other.unresolved),
            largest_free: self.largest_free.max(other.largest_free),
        }
    }
}

impl Sum for Sums {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum.with(&one, |a, b| a + b))
    }
}

/// Returns the sums over the part of the piece that is known from the lists.
pub fn known_sums(piece: &Piece, known: &Known, tails: &[(u64, u64)]) -> Sums {
    let presence = &piece.segment.presence;
    let part = (piece.start, piece.end);
    let mut sums = Sums::default();
    for &(start, end) in within(&known.free, part.0, part.1) {
        let (from, to) = (start.max(part.0), end.min(part.1));
        sums.free += (to - from) as f64;
        sums.free_resident += presence.resident_bytes(from, to) as f64;
        sums.free_pages += page_bytes(presence, (start, end), part) as f64;
        sums.free_chunks += f64::from(u8::from(start >= part.0));
    }
    for &(start, end) in within(&known.fastbins, part.0, part.1) {
        sums.fastbins += (end.min(part.1) - start.max(part.0)) as f64;
        sums.fastbin_chunks += f64::from(u8::from(start >= part.0));
    }
    for &run in within(&known.runs, part.0, part.1) {
        sums.run_pages += run_page_bytes(piece.segment, tails, run, part) as f64;
    }
    sums
}
