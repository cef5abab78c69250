//! Map of the arenas' memory, in use and free: cells of equal size, as many as a picture needs.

use super::heaps::Segment;
use crate::memory::{PAGE_BYTES, Presence};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// Cells at most, unless there are more runs of chunks than that.
const MOST_CELLS: u64 = 1024;

/// A part of an arena.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    schemars::JsonSchema,
)]
pub struct Cell {
    /// By its index.
    pub arena: usize,
    /// First address.
    #[serde(rename = "address")]
    pub start: u64,
    /// From there on.
    pub bytes: u64,
    /// On pages that are present.
    pub resident_bytes: u64,
    /// Resident bytes of chunks in bins or fastbins, or of the top.
    pub free_bytes: f64,
}

/// The cells of all arenas, by address.
#[derive(Clone, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct HeapMap {
    /// By address.
    pub cells: Vec<Cell>,
    /// A cell ends at each multiple of this.
    pub cell_bytes: u64,
}

impl HeapMap {
    /// Returns the map of `segments`, which come in the order of their addresses.
    pub(super) fn of<'a>(segments: impl Iterator<Item = &'a Segment> + Clone) -> Self {
        let all: u64 = segments.clone().map(|segment| segment.end - segment.start).sum();
        let cell_bytes = (all / MOST_CELLS).next_power_of_two().max(PAGE_BYTES);
        let mut cells = Vec::new();
        for segment in segments {
            let mut start = segment.start;
            while start < segment.end {
                let end = ((start / cell_bytes + 1) * cell_bytes).min(segment.end);
                let arena = segment.arena;
                let bytes = end - start;
                let resident_bytes = segment.presence.resident_bytes(start, end);
                cells.push(Cell { arena, start, bytes, resident_bytes, free_bytes: 0.0 });
                start = end;
            }
        }
        Self { cells, cell_bytes }
    }

    /// Index of the first cell that reaches beyond `address`.
    pub(super) fn first_at(&self, address: u64) -> usize {
        self.cells.partition_point(|cell| cell.start + cell.bytes <= address)
    }

    /// Adds `start..end`, which is free.
    pub(super) fn add_free(&mut self, presence: &Presence, start: u64, end: u64) {
        let first = self.first_at(start);
        for cell in self.cells[first..].iter_mut().take_while(|cell| cell.start < end) {
            let (from, to) = (start.max(cell.start), end.min(cell.start + cell.bytes));
            cell.free_bytes += presence.resident_bytes(from, to) as f64;
        }
    }
}
