//! Whether statistics that came from another process can be what was read of an allocator.

use super::statistics::{Arena, Statistics};
use crate::asked::MOST_BYTES;

/// Whether nothing that is worked out from them can fail.
pub(super) fn is_possible(statistics: &Statistics) -> bool {
    let Statistics { arenas, parameters, mapped, ranges, map, read_bytes, .. } = statistics;
    let are_bytes = |numbers: &[u64]| numbers.iter().all(|&number| number <= MOST_BYTES);
    let mut end = 0;
    let is_next = |start: u64, behind: u64, end: &mut u64| {
        let is_next = *end <= start && start < behind && behind <= MOST_BYTES;
        *end = behind;
        is_next
    };
    let are_ranges = ranges.iter().all(|range| is_next(range.start, range.end, &mut end));
    let mut end = 0;
    let are_cells = map.cells.iter().all(|cell| {
        cell.bytes <= MOST_BYTES
            && cell.start <= MOST_BYTES
            && is_next(cell.start, cell.start + cell.bytes, &mut end)
            && cell.resident_bytes <= cell.bytes
            && cell.free_bytes.is_finite()
            && cell.arena < arenas.len()
    });
    arenas.iter().all(is_arena)
        && arenas.len() < 1 << 16
        && are_bytes(&[mapped.chunks, mapped.bytes, mapped.resident_bytes, *read_bytes])
        && are_bytes(&[parameters.mapped_chunks, parameters.mapped_bytes])
        && are_ranges
        && are_cells
}

fn is_arena(arena: &Arena) -> bool {
    let spaces = [arena.in_use, arena.free, arena.top];
    let kept = [arena.fastbins, arena.tcaches];
    let numbers = [
        arena.threads,
        arena.system_bytes,
        arena.not_walked_bytes,
        arena.not_walked_resident_bytes,
        arena.heaps,
        arena.free_page_bytes,
        arena.largest_free_bytes,
        arena.joined_page_bytes,
        arena.metadata_bytes,
        arena.tcache_metadata_bytes,
    ];
    let of_spaces = spaces.into_iter().flat_map(|it| [it.chunks, it.bytes, it.resident_bytes]);
    let of_kept =
        kept.into_iter().flat_map(|it| [it.chunks, it.mapped_chunks, it.bytes, it.resident_bytes]);
    let mut all = numbers.into_iter().chain(of_spaces).chain(of_kept);
    all.all(|number| number <= MOST_BYTES)
        && arena.free_page_bytes <= arena.free.resident_bytes
        && kept.iter().all(|it| it.mapped_chunks <= it.chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glibc::{Cell, Range};
    use crate::memory::{Memory, PAGE_BYTES, Presence};
    use std::sync::Arc;

    /// Every other page is present.
    struct Striped;

    impl Memory for Striped {
        fn read(&self, _: u64, _: &mut [u8]) -> bool {
            false
        }

        fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
            let pages = (start..end).step_by(2 * PAGE_BYTES as usize);
            pages.for_each(|page| visit(page, page + PAGE_BYTES));
            true
        }
    }

    fn example() -> Statistics {
        let presence = Presence::of(&Striped, 0x10000, 0x20000).unwrap();
        let range = Range { start: 0x10000, end: 0x20000, presence: Arc::new(presence) };
        let cell = Cell { start: 0x10000, bytes: 0x1000, ..Cell::default() };
        let mut statistics = Statistics { arenas: vec![Arena::default()], ..Statistics::default() };
        statistics.ranges.push(range);
        statistics.map.cells.push(cell);
        statistics
    }

    #[test]
    fn statistics_arrive_as_they_were() {
        let wire = borsh::to_vec(&example()).unwrap();
        let back: Statistics = borsh::from_slice(&wire).unwrap();
        assert_eq!(format!("{back:?}"), format!("{:?}", example()));
        assert!(is_possible(&back));
    }

    #[test]
    fn statistics_that_cannot_be_are_refused() {
        let damages: [fn(&mut Statistics); 7] = [
            |it| it.arenas.clear(),
            |it| it.arenas[0].system_bytes = u64::MAX,
            |it| it.arenas[0].free_page_bytes = 1,
            |it| it.arenas[0].tcaches.mapped_chunks = 1,
            |it| it.ranges.push(it.ranges[0].clone()),
            |it| it.map.cells[0].free_bytes = f64::INFINITY,
            |it| it.map.cells[0].bytes = u64::MAX,
        ];
        for (index, damage) in damages.into_iter().enumerate() {
            let mut statistics = example();
            damage(&mut statistics);
            assert!(!is_possible(&statistics), "{index}");
        }
    }
}
