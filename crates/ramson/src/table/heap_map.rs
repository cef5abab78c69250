//! The heap as a picture of characters: by address, how much of each part is in use.

use super::{columns, push_prose, size};
use ramson_process::glibc::{Cell, HeapMap};

/// Width where there is no terminal to ask, and at most.
const COLUMNS: usize = 80;
/// Lines at most.
const MOST_LINES: usize = 4;
/// From all in use to all free, by the share that is free.
const SHADES: [(f64, char); 4] = [(0.1, '█'), (0.5, '▓'), (0.9, '▒'), (1.0, '░')];

/// Adds the picture; nothing where there is no heap.
pub fn push(out: &mut String, map: &HeapMap) {
    let all: u64 = map.cells.iter().map(|cell| cell.bytes).sum();
    if all == 0 {
        return;
    }
    let columns = columns().unwrap_or(COLUMNS).clamp(1, COLUMNS);
    let together = map.cells.len().div_ceil(columns * MOST_LINES).max(1);
    let parts: Vec<char> = map.cells.chunks(together).map(character).collect();
    let legend = format!(
        "one character per {}: █ in use  ▓ more than half  ▒ less  ░ free  · not resident",
        size((map.cell_bytes * together as u64).min(all)),
    );
    out.push('\n');
    push_prose(out, "heap map, ", &legend);
    for line in parts.chunks(columns) {
        out.extend(line);
        out.push('\n');
    }
}

fn character(cells: &[Cell]) -> char {
    let resident: u64 = cells.iter().map(|cell| cell.resident_bytes).sum();
    let free: f64 = cells.iter().map(|cell| cell.free_bytes).sum();
    if resident == 0 {
        return '·';
    }
    let share = free / resident as f64;
    SHADES.iter().find(|(most, _)| share <= *most).map_or('░', |&(_, shade)| shade)
}
