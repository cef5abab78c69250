//! Tests on made-up processes: whole, torn, swapped out and hostile ones.

use crate::glibc::{self, Effort, LibraryData, Statistics};
use crate::identify;
use crate::identify::AllocatorKind::{Jemalloc, Musl, Tcmalloc};
use crate::memory::{Memory, PAGE_BYTES, page_of};
use crate::rss::{Known, explain};
use crate::sight::Sight;
use crate::stacks::Stacks;
use crate::{Area, Part, Term, parse_smaps};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

mod newer;
mod rss;
mod spoilt;

use rss::explained;

const DATA: u64 = 0x7f00_0000_0000;
const HEAP: u64 = 0x5555_0000_0000;
const HEAP_PAGES: u64 = 8;
const MAIN_ARENA: u64 = DATA + 0x100;
const PARAMETERS: u64 = DATA + 0xb00;
const TOP: u64 = HEAP + 0x6000;
const NO_PARAMETERS: &str = "glibc's malloc parameters were not found";

/// Pages by address. Reading any other fails the test: it would bring a page back in a real process.
#[derive(Clone, Default)]
struct Snapshot {
    pages: BTreeMap<u64, Vec<u8>>,
    reads: Cell<u32>,
    /// A word that the first so many reads of its page see differently.
    torn: Option<(u64, u64, u32)>,
}

impl Snapshot {
    fn set(&mut self, address: u64, word: u64) {
        let page = self.pages.entry(page_of(address)).or_insert_with(|| vec![0; 4096]);
        let offset = (address % PAGE_BYTES) as usize;
        page[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }
}

impl Memory for Snapshot {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.reads.set(self.reads.get() + 1);
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address + index as u64;
            let page = self.pages.get(&page_of(at));
            let page = page.unwrap_or_else(|| panic!("{at:x} is not present, but was read"));
            *byte = page[(at % PAGE_BYTES) as usize];
        }
        if let Some((torn, word, reads)) = self.torn
            && self.reads.get() < reads
            && (address..address + buffer.len() as u64).contains(&torn)
        {
            let offset = (torn - address) as usize;
            buffer[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
        }
        true
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        self.pages.range(start..end).for_each(|(&page, _)| visit(page, page + PAGE_BYTES));
        true
    }
}

fn area(start: u64, end: u64, path: &str) -> Area {
    let permissions = *b"rw-p";
    Area { start, end, permissions, path: path.into(), ..Area::default() }
}

/// The data of the C library, and a heap that holds one tcache, one free chunk of three pages, one chunk in a fastbin and chunks in use.
fn process() -> (Snapshot, Vec<Area>) {
    let mut memory = Snapshot::default();
    for page in 0..HEAP_PAGES {
        memory.pages.insert(HEAP + page * PAGE_BYTES, vec![0; 4096]);
    }
    memory.pages.insert(DATA, vec![0; 4096]);
    for bin in 0..127 {
        let offset = MAIN_ARENA + 0x70 + 16 * bin;
        memory.set(offset, offset - 16);
        memory.set(offset + 8, offset - 16);
    }
    memory.set(MAIN_ARENA + 0x60, TOP);
    memory.set(MAIN_ARENA + 0x870, MAIN_ARENA);
    memory.set(MAIN_ARENA + 0x880, 1);
    memory.set(MAIN_ARENA + 0x888, HEAP_PAGES * PAGE_BYTES);
    memory.set(MAIN_ARENA + 0x890, HEAP_PAGES * PAGE_BYTES);
    // As 2.35 and later have them.
    for (offset, word) in [(0, 128 << 10), (8, 128 << 10), (16, 128 << 10), (24, 8)] {
        memory.set(PARAMETERS + offset, word);
    }
    memory.set(PARAMETERS + 64, 65536);
    memory.set(PARAMETERS + 96, HEAP);
    memory.set(PARAMETERS + 104, 64);
    memory.set(PARAMETERS + 112, 1032);
    memory.set(PARAMETERS + 120, 7);
    // Size with flags, from the bottom up: tcache, in use, free, in use, fastbin (two), in use to the top.
    let mut at = HEAP;
    for head in [0x291, 0x71, 0x4001, 0x30, 0x41, 0x41, 0x61] {
        memory.set(at + 8, head);
        at += head & !7;
    }
    let free = HEAP + 0x290 + 0x70;
    memory.set(free + 0x4000, 0x4000);
    let first = free + 0x4000 + 0x30;
    memory.set(MAIN_ARENA + 0x10 + 8 * 2, first);
    memory.set(first + 16, (first + 0x40) ^ ((first + 16) >> 12));
    memory.set(first + 0x50, (first + 0x50) >> 12);
    // The tcache holds one block of 0x70 bytes: the one behind it.
    memory.set(HEAP + 16 + 8, 1 << 16);
    memory.set(HEAP + 16 + 128 + 8 * 5, HEAP + 0x290 + 16);
    memory.set(at + 8, (TOP - at) | 1);
    memory.set(TOP + 8, (HEAP + HEAP_PAGES * PAGE_BYTES - TOP) | 1);
    let heap = area(HEAP, HEAP + HEAP_PAGES * PAGE_BYTES, "[heap]");
    (memory, vec![heap, area(DATA, DATA + PAGE_BYTES, "/lib/libc.so.6")])
}

fn read(memory: &Snapshot, areas: &[Area]) -> Result<Statistics, String> {
    read_with(memory, areas, Effort::Exact)
}

fn read_with(memory: &Snapshot, areas: &[Area], effort: Effort) -> Result<Statistics, String> {
    glibc::read(memory, areas, &[&areas[1]], (2, 36), effort)
}

#[test]
fn books_are_read_to_the_byte() {
    let (memory, areas) = process();
    let statistics = read(&memory, &areas).unwrap();
    let [arena] = statistics.arenas.as_slice() else { panic!("{statistics:?}") };
    assert_eq!(
        (arena.free.chunks, arena.free.bytes, arena.free.resident_bytes),
        (1, 0x4000, 0x4000)
    );
    assert_eq!(arena.free_page_bytes, 0x3000);
    assert_eq!((arena.top.bytes, arena.not_walked_bytes), (0x2000, 0));
    assert_eq!((arena.fastbins.chunks, arena.fastbins.bytes), (2, 0x80));
    assert_eq!((arena.tcaches.chunks, arena.tcaches.bytes), (1, 0x70));
    assert_eq!(arena.in_use.bytes + arena.free.bytes + arena.top.bytes, arena.system_bytes);
    assert_eq!(statistics.parameters.tcache_count, 7);
}

#[test]
fn survey_gives_the_same_books() {
    let (memory, areas) = process();
    let walked = read(&memory, &areas).unwrap();
    let surveyed = read_with(&memory, &areas, Effort::Survey(0)).unwrap();
    assert!(surveyed.is_surveyed() && !walked.is_surveyed());
    let of = |statistics: &Statistics| {
        let arena = &statistics.arenas[0];
        (arena.in_use, arena.free, arena.top, arena.fastbins, arena.tcaches, arena.free_page_bytes)
    };
    assert_eq!(of(&surveyed), of(&walked));
    for statistics in [&walked, &surveyed] {
        let arena = &statistics.arenas[0];
        let free = arena.free.resident_bytes + arena.top.resident_bytes + arena.fastbins.bytes;
        let in_cells: f64 = statistics.map.cells.iter().map(|cell| cell.free_bytes).sum();
        assert!((in_cells - free as f64).abs() < 1.0, "{in_cells} {statistics:?}");
    }
}

#[test]
fn blocks_pin_what_a_trim_leaves() {
    let (memory, areas) = process();
    let statistics = read(&memory, &areas).unwrap();
    let free = HEAP + 0x290 + 0x70;
    let beside = |chunk: u64| glibc::beside(&memory, &statistics, chunk + 16);
    let below = beside(free - 0x70).unwrap();
    assert_eq!((below.below_bytes, below.above_bytes), (0, 0xd00));
    let above = beside(free + 0x4000).unwrap();
    assert_eq!((above.below_bytes, above.above_bytes), (0x300, 0));
    let arena = &statistics.arenas[0];
    let scattered = arena.free.resident_bytes - arena.free_page_bytes;
    assert_eq!(below.held_bytes() + above.held_bytes(), scattered as f64);
    assert_eq!(beside(HEAP).unwrap().held_bytes(), 0.0);
    assert_eq!(beside(DATA), None);
}

#[test]
fn only_intact_unlocked_arenas_are_free() {
    let (mut memory, areas) = process();
    let locks = LibraryData::read(&memory, &[&areas[1]], (2, 36)).unwrap();
    assert!(locks.are_locks_seen_free(&memory, Duration::ZERO));
    for held in [1, 2] {
        memory.set(MAIN_ARENA, held);
        assert!(!locks.are_locks_seen_free(&memory, Duration::ZERO), "{held}");
    }
    memory.set(MAIN_ARENA, 0);
    memory.set(MAIN_ARENA + 0x870, 8);
    assert!(!locks.are_locks_seen_free(&memory, Duration::ZERO));
}

#[test]
fn unknown_glibc_version_is_refused() {
    let (memory, areas) = process();
    for version in [(2, 26), (2, 45), (3, 36)] {
        let refused = glibc::read(&memory, &areas, &[&areas[1]], version, Effort::Exact);
        let refused = refused.unwrap_err();
        let name =
            format!("ramson does not know the arenas of glibc {}.{}, ", version.0, version.1);
        assert!(refused.starts_with(&name), "{refused}");
    }
    // The layout of another version is not consistent with this process.
    let refused = glibc::read(&memory, &areas, &[&areas[1]], (2, 31), Effort::Exact);
    assert_eq!(refused.unwrap_err(), NO_PARAMETERS);
}

#[test]
fn unused_allocator_has_no_arena() {
    let (mut memory, areas) = process();
    memory.pages.insert(DATA, vec![0; 4096]);
    assert!(read(&memory, &areas).unwrap_err().contains("has no arena"));
}

#[test]
fn torn_size_is_read_again() {
    let (mut memory, areas) = process();
    let quiet = read(&memory, &areas).unwrap();
    let reads = memory.reads.get();
    memory.reads.set(0);
    memory.torn = Some((HEAP + 0x290 + 8, 0x123_4567, reads - 6));
    let statistics = read(&memory, &areas).unwrap();
    assert_eq!(statistics.arenas, quiet.arenas);
}

#[test]
fn spoilt_size_counts_as_not_walked() {
    let (mut memory, areas) = process();
    let spoilt = HEAP + 0x290;
    memory.set(spoilt + 8, 0x123_4567);
    let statistics = read(&memory, &areas).unwrap();
    // Up to the next chunk from which sizes lead to the top.
    assert_eq!(statistics.arenas[0].not_walked_bytes, 0x70);
    assert_eq!(statistics.arenas[0].top.bytes, 0x2000);
}

#[test]
fn memory_not_walked_makes_allocated_bytes_uncertain() {
    let (mut memory, areas) = process();
    let allocated = |memory: &Snapshot| read(memory, &areas).unwrap().allocated_bytes().unwrap();
    let (all, certain) = allocated(&memory);
    assert_eq!(certain, 0.0);
    // A chunk in use, of 0x60 bytes.
    memory.set(HEAP + 0x43b0 + 8, 0x123_4567);
    let (bytes, deviation) = allocated(&memory);
    assert!(deviation == 48.0 && (bytes - all).abs() <= 96.0, "{bytes} {all}");
}

#[test]
fn torn_fastbin_is_read_again() {
    let (mut memory, areas) = process();
    let quiet = read(&memory, &areas).unwrap();
    memory.reads.set(0);
    memory.torn = Some((HEAP + 0x4330 + 16, 0x123_4567, 8));
    assert_eq!(read(&memory, &areas).unwrap().arenas, quiet.arenas);
}

#[test]
fn swapped_pages_are_not_brought_back() {
    let (mut memory, areas) = process();
    let page = HEAP + 4 * PAGE_BYTES;
    memory.pages.remove(&page);
    let statistics = read(&memory, &areas).unwrap();
    assert!(statistics.arenas[0].not_walked_bytes > 0);
    assert!(statistics.not_walked_share() < 1.0);
}

/// The same process with one chunk of two pages that was mapped, in an area of `pages` behind the variables of a library.
fn process_with_mapped_chunk(pages: u64) -> (Snapshot, Vec<Area>) {
    let (mut memory, mut areas) = process();
    let start = DATA + PAGE_BYTES;
    for page in 0..pages {
        memory.set(start + page * PAGE_BYTES, 0);
    }
    memory.set(start + 8, (2 * PAGE_BYTES) | 2);
    let bytes = 2 * PAGE_BYTES;
    for (offset, word) in [(56, 1 << 32), (64, 1 << 32 | 65536), (80, bytes), (88, bytes)] {
        memory.set(PARAMETERS + offset, word);
    }
    areas[1].inode = 5;
    let rss = pages * PAGE_BYTES;
    areas.push(Area { rss, ..area(start, start + rss, "") });
    (memory, areas)
}

#[test]
fn block_behind_variables_is_live_once() {
    let (memory, mut areas) = process_with_mapped_chunk(3);
    areas[0].rss = HEAP_PAGES * PAGE_BYTES;
    let statistics = read(&memory, &areas).unwrap();
    assert_eq!((statistics.mapped.chunks, statistics.mapped.resident_bytes), (1, 2 * PAGE_BYTES));
    for (starts, rest) in [(vec![], Part::Data), (vec![areas[2].start], Part::Stacks)] {
        let stacks = Stacks { areas: starts, ..Stacks::default() };
        let sight = Sight { stacks, ..Sight::default() };
        let known = Known { statistics: Some(&statistics), sight, ..Known::default() };
        let explained = explain(&areas, &known);
        assert_eq!(explained.part(Part::Moved), 0, "{explained:?}");
        assert_eq!(explained.part(rest), PAGE_BYTES as i64);
    }
}

#[test]
fn block_in_several_areas_is_live() {
    let (memory, mut areas) = process_with_mapped_chunk(3);
    let block = areas.pop().unwrap();
    // As madvise(MADV_HUGEPAGE) from its second page on leaves it; the third one is the program's.
    let middle = block.start + PAGE_BYTES;
    areas.push(Area { end: middle, rss: PAGE_BYTES, ..block.clone() });
    areas.push(Area { start: middle, rss: 2 * PAGE_BYTES, ..block });
    let statistics = read(&memory, &areas).unwrap();
    assert_eq!((statistics.mapped.chunks, statistics.mapped.bytes), (1, 2 * PAGE_BYTES));
    assert!(statistics.has_all_mapped);
    let explained = explained(&areas, &statistics);
    let kept = statistics.live_resident_bytes() as i64;
    assert_eq!(
        (explained.part(Part::Live), explained.term(Term::Other)),
        (kept, PAGE_BYTES as i64)
    );
}

#[test]
fn lookalike_mapped_blocks_are_ignored() {
    let (mut memory, areas) = process_with_mapped_chunk(9);
    let start = areas[2].start;
    // The first one lies behind memory of the program's: page after page is searched.
    memory.set(start + 8, 0);
    memory.set(start + 3 * PAGE_BYTES + 8, (3 * PAGE_BYTES) | 2);
    memory.set(start + 7 * PAGE_BYTES + 8, (2 * PAGE_BYTES) | 2);
    let statistics = read(&memory, &areas).unwrap();
    assert_eq!((statistics.mapped.chunks, statistics.mapped.bytes), (1, 2 * PAGE_BYTES));
    assert!(statistics.ranges.iter().any(|range| range.start == start + 7 * PAGE_BYTES));
    assert!(statistics.ranges.iter().all(|range| range.start != start + 3 * PAGE_BYTES));
}

#[test]
fn page_search_reads_many_at_once() {
    let reads = |pages: u64| {
        let (mut memory, areas) = process_with_mapped_chunk(pages);
        let start = areas[2].start;
        // Behind memory of the program's: page after page is searched.
        memory.set(start + 8, 0);
        memory.set(start + (pages - 2) * PAGE_BYTES + 8, (2 * PAGE_BYTES) | 2);
        assert!(read(&memory, &areas).unwrap().has_all_mapped);
        memory.reads.get()
    };
    assert_eq!(reads(16 * 20) - reads(16), 19);
}

#[test]
fn smaps_names_contain_anything() {
    let text = "\
7f00-8f00 r--s 00001000 08:01 5                          /a b/Rss: 3 (deleted)
Rss:                  12 kB
Anonymous:             4 kB
Swap:                  8 kB
VmFlags: rd sh mr dd nh
8f00-9f00 rw-p 00000000 00:00 0
Rss:                   4 kB
";
    let areas = parse_smaps(text.as_bytes());
    assert_eq!(areas.len(), 2);
    assert_eq!(areas[0].path, "/a b/Rss: 3 (deleted)");
    let bytes = (areas[0].rss, areas[0].anonymous, areas[0].swap, areas[1].rss);
    assert_eq!(bytes, (12288, 4096, 8192, 4096));
    assert_eq!((&areas[0].permissions, &areas[1].permissions), (b"r--s", b"rw-p"));
    let flags = areas.iter().map(|area| (area.is_not_dumped, area.is_never_huge));
    assert!(flags.eq([(true, true), (false, false)]));
}

#[test]
fn allocators_are_known_by_their_files() {
    let banner =
        b"\0\0GNU C Library (Ubuntu GLIBC 2.35-0ubuntu3.8) stable release version 2.35.\nCopyright";
    let found = identify::glibc_version(banner);
    assert_eq!(found, Some(((2, 35), "Ubuntu GLIBC 2.35-0ubuntu3.8".into())));
    assert_eq!(identify::glibc_version(b"GNU C Library"), None);
    let jemalloc = b"x-0-g\x005.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c\0";
    assert_eq!(identify::jemalloc_version(jemalloc).as_deref(), Some("5.3.0"));
    assert_eq!(identify::jemalloc_version(b"-0-g"), None);
    let mapped = |paths: &[&str]| {
        let at = |index: usize, path: &&str| area(index as u64, index as u64 + 1, path);
        let areas: Vec<_> = paths.iter().enumerate().map(|(i, path)| at(i, path)).collect();
        identify::replacing_allocator(&areas, "/a/libtcmalloc.so.4").map(|(kind, _)| kind)
    };
    let both = ["/usr/lib/libtcmalloc.so.4.5.10", "/usr/lib/libjemalloc.so.2"];
    assert_eq!(mapped(&both), Some(Tcmalloc));
    assert_eq!(mapped(&["/usr/lib/libmimalloc.so.2", "/b/libjemalloc.so.2"]), Some(Jemalloc));
    assert_eq!(mapped(&["/lib/libc.so.6", "/usr/lib/libjemalloc.so.2"]), Some(Jemalloc));
    assert_eq!(mapped(&["/lib/ld-musl-x86_64.so.1"]), Some(Musl));
    assert_eq!(mapped(&["/usr/lib/x86_64-linux-musl/libc.so"]), Some(Musl));
    assert_eq!(mapped(&["/bin/a", "/lib/libc.so.6", "/lib/libcap.so"]), None);
    let is_libc = |path| identify::is_libc(&area(0, 1, path));
    assert!(
        is_libc("/lib/libc.so.6")
            && is_libc("/lib/libc-2.31.so")
            && is_libc("/a/libc.so.6 (deleted)")
    );
    assert!(!is_libc("/lib/libc.so.60") && !is_libc("/lib/libcap.so") && !is_libc(""));
    let settings = identify::settings(b"HOME=/\0MALLOC_ARENA_MAX=2\0SECRET=MALLOC_=1\0");
    assert_eq!(settings, [("MALLOC_ARENA_MAX".into(), "2".into())]);
}

#[test]
fn torn_arena_takes_no_memory() {
    let (mut memory, areas) = process();
    // The size of the top, and of all that the arena has.
    memory.set(TOP + 8, 1 << 46);
    memory.set(MAIN_ARENA + 0x888, (1 << 47) - 8);
    assert!(read_with(&memory, &areas, Effort::Exact).is_err());
}
