//! Processes of other users: a worker of their owner reads them. Its answers are checked: it may be in the owner's hands.

use crate::allocators::{Allocators, Missing};
use crate::areas::{Area, read_outline};
use crate::binary::{Content, Place};
use crate::glibc::{self, Arena, Beside, Effort, Range, Statistics};
use crate::mappings::{self, Mapping};
use crate::memory::Memory;
use crate::process_memory::ProcessMemory;
use crate::rss::{self, Explained, Reading, Request};
use crate::search::{Found, Search};
use crate::smaps::read_smaps;
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Handler};
use ramson_paths::{Root, RootIdentity};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const RSS: u8 = 0x40;
const MAPPINGS: u8 = 0x41;
const BYTES: u8 = 0x42;
const BESIDE: u8 = 0x43;
const SEARCH: u8 = 0x44;
const PEEK: u8 = 0x45;
const RUNS: u8 = 0x46;
const AREAS: u8 = 0x47;
const PIECE: u8 = 0x49;
const DIRECTORY: u8 = 0x4a;
const STATISTICS: u8 = 0x4b;
/// A process has no more addresses.
const MOST_BYTES: u64 = 1 << 47;
/// Read at once of a process's memory, or of a file.
const MOST_READ_BYTES: u64 = 64 << 20;

/// Question for the RSS of a process. Ranges are start and end.
#[derive(BorshSerialize, BorshDeserialize)]
struct Asked {
    pid: u32,
    allocators: Option<Allocators>,
    effort: Effort,
    profile: Option<String>,
    extents: Vec<(u64, u64)>,
    blocks: Vec<u64>,
}

/// The answer.
#[derive(BorshSerialize, BorshDeserialize)]
struct Told {
    allocators: Option<Allocators>,
    explained: Explained,
    statistics: Result<Statistics, Missing>,
    has_memory: bool,
    is_forked: bool,
}

/// The same as `rss::read`.
pub(crate) fn read_rss(
    by: &Apart,
    pid: u32,
    allocators: &mut Option<Allocators>,
    request: &Request,
) -> io::Result<Reading> {
    let asked = Asked {
        pid,
        allocators: allocators.take(),
        effort: request.effort,
        profile: request.profile.map(str::to_owned),
        extents: request.extents.iter().map(|range| (range.start, range.end)).collect(),
        blocks: request.blocks.to_vec(),
    };
    let mut told = ask::<Option<Told>>(by, RSS, &asked);
    if let Err(Failure::Stuck(_) | Failure::Time(_)) = told {
        // Its program may be where nobody answers: its allocator is not looked for then.
        let allocators = Some(asked.allocators.unwrap_or_default());
        told = ask(by, RSS, &Asked { allocators, ..asked });
    }
    let told = told.map_err(|failure| watched::noted(pid, failure))?;
    let told = told.ok_or(io::ErrorKind::NotFound)?;
    let Told { explained, statistics, has_memory, is_forked, .. } = told;
    if !explained.is_possible() || !statistics.as_ref().ok().is_none_or(is_valid) {
        return Err(Failure::BadAnswer.into());
    }
    *allocators = told.allocators;
    let memory = has_memory.then(|| ProcessMemory::Theirs(by.clone(), pid));
    Ok(Reading { explained, statistics, memory, is_forked })
}

/// The same as `Allocators::statistics`.
pub(crate) fn statistics(
    by: &Apart,
    pid: u32,
    allocators: &Allocators,
    effort: Effort,
) -> Result<Statistics, Missing> {
    let said = |failure: Failure| Missing::Refused(format!("{failure}. {}", failure.next_step()));
    let told = ask(by, STATISTICS, &(pid, allocators, effort)).map_err(said)?;
    Some(told).filter(|told: &Result<_, _>| told.as_ref().ok().is_none_or(is_valid)).ok_or_else(|| said(Failure::BadAnswer))?
}

/// Returns the free memory that touches each of these blocks, as `glibc::beside` does; `None` for a block of which nothing is known.
pub fn beside(
    memory: &ProcessMemory,
    statistics: &Statistics,
    blocks: &[u64],
) -> Vec<Option<Beside>> {
    let ProcessMemory::Theirs(by, pid) = memory else {
        return all_beside(memory, statistics, blocks);
    };
    let found: Result<Vec<Option<Beside>>, Failure> =
        ask(by, BESIDE, &(pid, &statistics.ranges, blocks));
    let is_bytes = |it: &Beside| it.below_bytes <= MOST_BYTES && it.above_bytes <= MOST_BYTES;
    let is_answer = |found: &Vec<Option<Beside>>| {
        found.len() == blocks.len() && found.iter().flatten().all(is_bytes)
    };
    found.ok().filter(is_answer).unwrap_or_else(|| vec![None; blocks.len()])
}

fn all_beside(
    memory: &ProcessMemory,
    statistics: &Statistics,
    blocks: &[u64],
) -> Vec<Option<Beside>> {
    blocks.iter().map(|&block| glibc::beside(memory, statistics, block)).collect()
}

/// The areas of a process.
pub(crate) fn areas(by: &Apart, pid: u32) -> Result<Vec<Area>, Failure> {
    let areas: Vec<Area> = ask(by, AREAS, &pid)?;
    Some(areas).filter(|areas| are_areas(areas)).ok_or(Failure::BadAnswer)
}

/// The mappings of a process from an address on; `None` where the kernel cannot be asked for one after the other.
pub(crate) fn mappings(
    by: &Apart,
    pid: u32,
    at: u64,
    of_files: bool,
) -> Result<Option<Vec<Mapping>>, Failure> {
    let batch: Option<Vec<Mapping>> = ask(by, MAPPINGS, &(pid, at, of_files))?;
    Some(batch).filter(|batch| mappings::are_valid(batch, at)).ok_or(Failure::BadAnswer)
}

/// The first bytes of a file of a process in /proc.
pub(crate) fn bytes(by: &Apart, pid: u32, name: &str, most: u64) -> io::Result<Vec<u8>> {
    let bytes = ask::<Result<Vec<u8>, i32>>(by, BYTES, &(pid, name, most));
    let bytes = bytes.map_err(|failure| watched::noted(pid, failure))?;
    bytes.map_err(io::Error::from_raw_os_error)
}

/// Which directory the owner finds at a path; `None`: none that the owner may look at.
pub(crate) fn directory(by: &Apart, path: &Path) -> Option<RootIdentity> {
    let bytes = path.as_os_str().as_bytes();
    let found: Option<(u64, u64, u64)> = ask(by, DIRECTORY, &bytes).ok()?;
    found.map(|(device, inode, birth_ns)| RootIdentity { device, inode, birth_ns })
}

/// Runs a search in a binary. Finds nothing if the worker fails.
pub(crate) fn search(by: &Apart, place: &Place, what: Search) -> Found {
    ask(by, SEARCH, &(place, what)).unwrap_or_default()
}

/// The bytes of a file from an offset on, as many as come at once; none at its end.
pub(crate) fn piece(by: &Apart, place: &Place, offset: u64) -> Option<Vec<u8>> {
    ask::<Option<Vec<u8>>>(by, PIECE, &(place, offset)).ok()?
}

/// Bytes of memory; `None` if not all of them can be read.
pub(crate) fn peek(by: &Apart, pid: u32, address: u64, length: u64) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = ask(by, PEEK, &(pid, address, length)).ok()?;
    bytes.filter(|bytes| bytes.len() as u64 == length)
}

/// The runs of present pages in a range.
pub(crate) fn present(by: &Apart, pid: u32, start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
    let runs: Option<Vec<(u64, u64)>> = ask(by, RUNS, &(pid, start, end)).ok()?;
    let is_run = |&(from, to): &(u64, u64)| from < to;
    runs.filter(|runs| {
        runs.iter().all(is_run) && runs.windows(2).all(|pair| pair[0].1 <= pair[1].0)
    })
}

fn ask<T: BorshDeserialize>(
    by: &Apart,
    kind: u8,
    question: &impl BorshSerialize,
) -> Result<T, Failure> {
    let body = borsh::to_vec(question).map_err(|_| Failure::BadAnswer)?;
    let answer = by.ask(&ramson_apart::Request { kind, body: &body, files: &[] })?;
    borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer)
}

/// In a worker: reads processes. Keeps the memory of one open, the last.
#[derive(Default)]
pub struct MemoryReader {
    open: Option<(u32, ProcessMemory)>,
}

impl Handler for MemoryReader {
    fn kinds(&self) -> &'static [u8] {
        &[RSS, STATISTICS, MAPPINGS, BYTES, BESIDE, SEARCH, PEEK, RUNS, AREAS, PIECE, DIRECTORY]
    }

    fn answer(&mut self, kind: u8, body: &[u8], _: Vec<File>) -> Option<Vec<u8>> {
        let answer = match kind {
            RSS => {
                self.open = None;
                borsh::to_vec(&told(borsh::from_slice(body).ok()?))
            }
            STATISTICS => {
                let (pid, allocators, effort): (u32, Allocators, Effort) = borsh::from_slice(body).ok()?;
                let areas = if allocators.other.is_some() { read_smaps(pid) } else { read_outline(pid) };
                let memory = self.memory(pid)?;
                borsh::to_vec(&allocators.statistics(memory, &areas.unwrap_or_default(), effort))
            }
            MAPPINGS => {
                let (pid, at, of_files) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&mappings::batch_of(pid, at, of_files))
            }
            BYTES => {
                let (pid, name, most): (u32, String, u64) = borsh::from_slice(body).ok()?;
                let bytes = watched::start(pid, &name, most.min(MOST_READ_BYTES));
                borsh::to_vec(&bytes.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)))
            }
            SEARCH => {
                let (place, what): (Place, Search) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&Content::open(&place).map(|it| what.run(&it)).unwrap_or_default())
            }
            DIRECTORY => {
                let path: Vec<u8> = borsh::from_slice(body).ok()?;
                let found = Root::told(Path::new(OsStr::from_bytes(&path)));
                let found = found.and_then(|found| found.identity()).ok();
                borsh::to_vec(&found.map(|it| (it.device, it.inode, it.birth_ns)))
            }
            PIECE => {
                let (place, offset): (Place, u64) = borsh::from_slice(body).ok()?;
                borsh::to_vec(&Content::open(&place).and_then(|it| it.piece(offset)))
            }
            AREAS => {
                let pid: u32 = borsh::from_slice(body).ok()?;
                // A process that has just ended has no areas.
                borsh::to_vec(&read_smaps(pid).unwrap_or_default())
            }
            BESIDE => {
                let (pid, ranges, blocks): (u32, Vec<Range>, Vec<u64>) = borsh::from_slice(body).ok()?;
                let statistics = Statistics { ranges, ..Statistics::default() };
                let beside = self.memory(pid).map(|memory| all_beside(memory, &statistics, &blocks));
                borsh::to_vec(&beside.unwrap_or_default())
            }
            PEEK => {
                let (pid, address, length): (u32, u64, u64) = borsh::from_slice(body).ok()?;
                let mut bytes = vec![0; length.min(MOST_READ_BYTES) as usize];
                let is_read = self.memory(pid).is_some_and(|it| it.read(address, &mut bytes));
                borsh::to_vec(&is_read.then_some(bytes))
            }
            _ => {
                let (pid, start, end) = borsh::from_slice(body).ok()?;
                let mut runs: Vec<(u64, u64)> = Vec::new();
                let mut add = |from, to| runs.push((from, to));
                let memory = self.memory(pid);
                let is_told = memory.is_some_and(|it| it.present_runs(start, end, &mut add));
                borsh::to_vec(&is_told.then_some(runs))
            }
        };
        answer.ok()
    }
}

impl MemoryReader {
    fn memory(&mut self, pid: u32) -> Option<&ProcessMemory> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != pid) {
            self.open = Some((pid, ProcessMemory::open(pid).ok()?));
        }
        self.open.as_ref().map(|(_, memory)| memory)
    }
}

fn told(asked: Asked) -> Option<Told> {
    let Asked { pid, mut allocators, effort, profile, extents, blocks } = asked;
    let extents: Vec<ops::Range<u64>> = extents.into_iter().map(|(start, end)| start..end).collect();
    let request =
        Request { effort, profile: profile.as_deref(), extents: &extents, blocks: &blocks };
    let Reading { explained, statistics, memory, is_forked } =
        rss::read(pid, &mut allocators, &request).ok()?;
    Some(Told { allocators, explained, statistics, has_memory: memory.is_some(), is_forked })
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
    use crate::glibc::Cell;
    use crate::memory::{PAGE_BYTES, Presence};
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
