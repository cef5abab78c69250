//! The memory of others' processes and the binaries in them: opened here, read by a helper. The helper's answers are checked, because the helper
//! may be in the others' hands.

use crate::areas::{Area, without_directory};
use crate::glibc::{self, Arena, Beside, Effort, Statistics};
use crate::memory::Head;
use crate::padding::padding;
use crate::process_memory::ProcessMemory;
use crate::search::{Found, Search};
use crate::stacks::thread_stacks;
use crate::variables::ends_of_variables;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Request};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) const STATISTICS: u8 = 0x40;
pub(crate) const LOOK: u8 = 0x42;
pub(crate) const BESIDE: u8 = 0x43;
pub(crate) const SEARCH: u8 = 0x44;
pub(crate) const PEEK: u8 = 0x45;
pub(crate) const RUNS: u8 = 0x46;
pub(crate) const AREAS: u8 = 0x47;
pub(crate) const HEADS: u8 = 0x49;
/// A process has no more addresses.
const MOST_BYTES: u64 = 1 << 47;
/// A longer path of an area is passed without its directory.
const MOST_PATH_BYTES: usize = 256;

/// Question to the helper: what to read. The descriptors are those of the memory and of its pagemap.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Question {
    pub areas: Vec<Area>,
    /// The C library's data, as indices of `areas`.
    pub library: Vec<u32>,
    pub version: (u32, u32),
    pub effort: Effort,
}

/// Facts seen in memory in addition to the allocator's statistics.
#[derive(Default, BorshSerialize, BorshDeserialize)]
pub struct Sight {
    /// Starts of the areas that are threads' stacks, ascending.
    pub stacks: Vec<u64>,
    /// Bytes of zeros in huge pages, by the starts of their areas, ascending.
    pub padding: Vec<(u64, u64)>,
    /// Ends of the variables that areas begin with, by the starts of these areas, ascending.
    pub variables: Vec<(u64, u64)>,
}

impl Sight {
    pub(crate) fn of(memory: &ProcessMemory, areas: &[Area]) -> Self {
        let padding = areas.iter().map(|area| (area.start, padding(memory, area)));
        Self {
            stacks: thread_stacks(memory, areas),
            padding: padding.filter(|&(_, bytes)| bytes > 0).collect(),
            variables: ends_of_variables(memory, areas),
        }
    }

    /// Whether it can be what is seen of these areas.
    fn is_of(&self, areas: &[Area]) -> bool {
        let areas: HashMap<u64, &Area> = areas.iter().map(|area| (area.start, area)).collect();
        let is_padding = |&(start, bytes): &(u64, u64)| {
            areas.get(&start).is_some_and(|area| bytes <= area.anonymous_huge)
        };
        let is_end = |&(start, end): &(u64, u64)| {
            areas.get(&start).is_some_and(|area| (start..=area.end).contains(&end))
        };
        self.stacks.is_sorted()
            && self.stacks.iter().all(|start| areas.contains_key(start))
            && self.padding.iter().all(is_padding)
            && self.padding.is_sorted()
            && self.variables.iter().all(is_end)
            && self.variables.is_sorted()
    }

    /// Bytes of zeros in the huge pages of an area.
    pub fn padding_of(&self, area: &Area) -> u64 {
        of_area(&self.padding, area).unwrap_or(0)
    }

    /// Returns the end of the variables that an area begins with; `None` if that end is not known.
    pub fn end_of_variables(&self, area: &Area) -> Option<u64> {
        of_area(&self.variables, area)
    }
}

fn of_area(all: &[(u64, u64)], area: &Area) -> Option<u64> {
    let found = all.binary_search_by_key(&area.start, |&(start, _)| start);
    found.ok().map(|index| all[index].1)
}

pub(crate) fn all_beside(
    memory: &ProcessMemory,
    statistics: &Statistics,
    blocks: &[u64],
) -> Vec<Option<Beside>> {
    blocks.iter().map(|&block| glibc::beside(memory, statistics, block)).collect()
}

/// Asks the helper that reads this memory.
fn ask<T: BorshDeserialize>(
    by: &Apart,
    kind: u8,
    question: &impl BorshSerialize,
    files: &[BorrowedFd],
) -> Result<T, Failure> {
    let body = borsh::to_vec(question).map_err(|_| Failure::BadAnswer)?;
    let answer = by.ask(&Request { kind, body: &body, files })?;
    borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)
}

/// Copies areas for a helper, with long paths shortened.
fn slim(areas: &[Area]) -> Vec<Area> {
    let path = |area: &Area| match area.path.len() {
        0..=MOST_PATH_BYTES => area.path.clone(),
        _ => without_directory(&area.path),
    };
    let slim = |area: &Area| Area { path: path(area), ..*area };
    areas.iter().map(slim).collect()
}

/// The same as `glibc::read`, read by a helper if it is not to be read here.
pub fn statistics(
    memory: &ProcessMemory,
    areas: &[Area],
    library: &[&Area],
    version: (u32, u32),
    effort: Effort,
) -> Result<Statistics, String> {
    let Some((by, files)) = memory.apart() else {
        return glibc::read(memory, areas, library, version, effort);
    };
    let of_library = |area: &&Area| library.iter().any(|of| of.start == area.start);
    let library = areas.iter().enumerate().filter(|(_, area)| of_library(area));
    let library = library.map(|(index, _)| index as u32).collect();
    let question = Question { areas: slim(areas), library, version, effort };
    let said = |failure: Failure| format!("{failure}. {}", failure.next_step());
    let answer: Result<Statistics, String> =
        ask(by, STATISTICS, &question, &files).map_err(said)?;
    answer.and_then(|statistics| {
        Some(statistics).filter(is_valid).ok_or_else(|| said(Failure::BadAnswer))
    })
}

/// Threads' stacks, and zeros in huge pages. Nothing where the helper that looks fails.
pub fn look(memory: &ProcessMemory, areas: &[Area]) -> Sight {
    let Some((by, files)) = memory.apart() else { return Sight::of(memory, areas) };
    let sight: Result<Sight, Failure> = ask(by, LOOK, &slim(areas), &files);
    sight.ok().filter(|sight| sight.is_of(areas)).unwrap_or_default()
}

/// Returns the free memory that touches each of these blocks, as `glibc::beside` does; `None` for a block of which nothing is known.
pub fn beside(
    memory: &ProcessMemory,
    statistics: &Statistics,
    blocks: &[u64],
) -> Vec<Option<Beside>> {
    let Some((by, files)) = memory.apart() else { return all_beside(memory, statistics, blocks) };
    let found: Result<Vec<Option<Beside>>, Failure> =
        ask(by, BESIDE, &(&statistics.ranges, blocks), &files);
    let is_bytes = |it: &Beside| it.below_bytes <= MOST_BYTES && it.above_bytes <= MOST_BYTES;
    let is_answer = |found: &Vec<Option<Beside>>| {
        found.len() == blocks.len() && found.iter().flatten().all(is_bytes)
    };
    found.ok().filter(is_answer).unwrap_or_else(|| vec![None; blocks.len()])
}

/// The areas that a file smaps tells.
pub(crate) fn areas(by: &Apart, smaps: &File) -> Result<Vec<Area>, Failure> {
    let areas: Vec<Area> = ask(by, AREAS, &(), &[smaps.as_fd()])?;
    Some(areas).filter(|areas| are_areas(areas)).ok_or(Failure::BadAnswer)
}

/// Runs a search in a binary, in the helper. Finds nothing if the helper fails.
pub fn search(by: &Apart, file: BorrowedFd, what: Search) -> Found {
    ask(by, SEARCH, &what, &[file]).unwrap_or_default()
}

/// Bytes of memory; `None` if not all of them can be read.
pub fn peek(by: &Apart, files: &[BorrowedFd], address: u64, length: u64) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = ask(by, PEEK, &(address, length), files).ok()?;
    bytes.filter(|bytes| bytes.len() as u64 == length)
}

/// Returns the head at each of these addresses; `None` for a head that cannot be read.
pub fn heads(by: &Apart, files: &[BorrowedFd], addresses: &[u64]) -> Vec<Option<Head>> {
    let heads: Result<Vec<Option<Head>>, Failure> = ask(by, HEADS, &addresses, files);
    heads
        .ok()
        .filter(|heads| heads.len() == addresses.len())
        .unwrap_or_else(|| vec![None; addresses.len()])
}

/// The runs of present pages in a range.
pub fn present(by: &Apart, files: &[BorrowedFd], start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
    let runs: Option<Vec<(u64, u64)>> = ask(by, RUNS, &(start, end), files).ok()?;
    let is_run = |&(from, to): &(u64, u64)| from < to;
    runs.filter(|runs| {
        runs.iter().all(is_run) && runs.windows(2).all(|pair| pair[0].1 <= pair[1].0)
    })
}

fn are_areas(areas: &[Area]) -> bool {
    let is_area = |it: &Area| {
        let bytes = [it.rss, it.anonymous, it.shared, it.anonymous_huge, it.hugetlb, it.swap];
        it.start < it.end && bytes.iter().all(|&bytes| bytes <= MOST_BYTES)
    };
    areas.iter().all(is_area) && areas.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// Whether nothing that is worked out from them can fail.
fn is_valid(statistics: &Statistics) -> bool {
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
        assert!(is_valid(&back));
    }

    #[test]
    fn areas_that_cannot_be_are_refused() {
        let area = |start, end, rss| Area { start, end, rss, ..Area::default() };
        assert!(are_areas(&[area(1, 2, MOST_BYTES), area(2, 3, 0)]));
        assert!(!are_areas(&[area(2, 3, 0), area(1, 2, 0)]));
        assert!(!are_areas(&[area(1, 3, 0), area(2, 4, 0)]));
        assert!(!are_areas(&[area(1, 1, 0)]));
        assert!(!are_areas(&[area(1, 2, MOST_BYTES + 1)]));
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
            assert!(!is_valid(&statistics), "{index}");
        }
    }
}
