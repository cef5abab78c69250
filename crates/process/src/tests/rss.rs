//! Tests of the parts of RSS: the uses of a process's memory, out of smaps and the allocator's books.

use super::*;
use crate::details::{Details, Mapped};
use crate::{Explained, Term, is_ramsons};

pub(super) fn explained(areas: &[Area], statistics: &Statistics) -> Explained {
    explain(areas, &Known { statistics: Some(statistics), ..Known::default() })
}

/// Memory in which every page of `start..end` is present that is a multiple of so many pages behind the start.
fn present(start: u64, end: u64, every: usize) -> Snapshot {
    let mut memory = Snapshot::default();
    let pages = (start..end).step_by(every * PAGE_BYTES as usize);
    pages.for_each(|page| memory.set(page, 0));
    memory
}

const SMAPS: &str = "\
400000-401000 r-xp 00000000 08:01 3                                      /opt/server
Rss:                   4 kB
401000-402000 rw-p 00001000 08:01 3                                      /opt/server
Rss:                   4 kB
Anonymous:             4 kB
402000-404000 rw-p 00000000 00:00 0
Rss:                   8 kB
Anonymous:             8 kB
404000-504000 rw-p 00000000 00:00 0                                      [heap]
Rss:                 800 kB
Anonymous:           800 kB
7f0000000000-7f0000002000 r--p 00000000 08:01 4                          /srv/data.db
Rss:                   8 kB
7f0000002000-7f0000004000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
Rss:                  24 kB
7f0000004000-7f0000004800 rw-p 00000000 08:01 6                          /srv/münchen.dat
Rss:                  12 kB
Anonymous:             8 kB
7f0000004800-7f0000005000 rw-p 00000000 00:01 9                          /memfd:private (deleted)
Rss:                  16 kB
Anonymous:            16 kB
7f0000005000-7f0000006000 r-xp 00000000 08:01 5                          /opt/ra mson/libramson.so
Rss:                  12 kB
7f0000006000-7f0001006000 rw-p 00000000 00:00 0
Rss:                  20 kB
7f0002000000-7f0002100000 rw-p 00000000 00:00 0
Rss:                 100 kB
VmFlags: rd wr mr mw me dd nh ac
7f0003000000-7f0003100000 rw-s 00000000 08:01 7                          /var/tmp/ramson-0/1-2.ramson
Rss:                 200 kB
7f0004000000-7f0004800000 rw-p 00000000 00:00 0
Rss:                4096 kB
Anonymous:          4096 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  16 kB
7ffd00030000-7ffd00031000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
";

#[test]
fn allocator_area_behind_variables_is_separate() {
    let smaps = "\
7f0000000000-7f0000001000 rw-p 00001000 08:01 3                          /usr/lib/libjemalloc.so.2
Rss:                   4 kB
Anonymous:             4 kB
7f0000001000-7f0000801000 rw-p 00000000 00:00 0
Rss:                8000 kB
Anonymous:          8000 kB
";
    let areas = parse_smaps(smaps.as_bytes());
    let memory = present(areas[1].start, areas[1].end, 1);
    let of = |blocks: &[u64]| {
        let known = Known { memory: Some(&memory), blocks, ..Known::default() };
        let explained = explain(&areas, &known);
        [Term::CodeAndData, Term::Held].map(|term| explained.term(term) / 1024)
    };
    assert_eq!(of(&[]), [8000, 0]);
    assert_eq!(of(&[0x7f00_0004_1000, 0x7f00_0070_0000]), [256, 8000 - 256]);
}

#[test]
fn stack_has_a_guard() {
    let smaps = "\
c000000000-c004000000 rw-p 00000000 00:00 0
Rss:               50000 kB
Anonymous:         50000 kB
7f0000000000-7f0000001000 ---p 00000000 00:00 0
7f0000001000-7f0000801000 rw-p 00000000 00:00 0
Rss:                  16 kB
Anonymous:            16 kB
7f0010000000-7f0014000000 ---p 00000000 00:00 0
7f0014000000-7f0014801000 rw-p 00000000 00:00 0
Rss:                4000 kB
Anonymous:          4000 kB
";
    let areas = parse_smaps(smaps.as_bytes());
    // A goroutine's stack lies in the heap.
    let stack_pointers = vec![0xc0_0000_2000, 0x7f00_0070_0000, 0x7f00_1480_0000];
    let explained = explain(&areas, &Known { stack_pointers, ..Known::default() });
    assert_eq!([Term::Stacks, Term::Other].map(|term| explained.term(term) / 1024), [16, 54_000]);
}

#[test]
fn lazily_freed_memory_is_a_term() {
    let smaps = "\
7f0000001000-7f0012c01000 rw-p 00000000 00:00 0
Rss:              307200 kB
Anonymous:        307200 kB
LazyFree:         286720 kB
";
    let explained = explain(&parse_smaps(smaps.as_bytes()), &Known::default());
    let kib = |term| explained.term(term) / 1024;
    assert_eq!([kib(Term::LazyFree), kib(Term::Other)], [286_720, 20_480]);
}

/// A ring buffer that the process has mapped twice, in its own, and one that another process has mapped, too.
#[test]
fn shared_memory_is_told_by_name() {
    let entry = |start: u64, inode: u64, path: &str, pss| {
        format!(
            "{start:x}-{:x} rw-s 00000000 00:01 {inode} {path}\nRss: 1024 kB\nPss: {pss} kB\n",
            start + (1 << 20)
        )
    };
    let smaps = entry(0x7f00_0000_0000, 9, "/memfd:ring (deleted)", 512)
        + &entry(0x7f00_0010_0000, 9, "/memfd:ring (deleted)", 512)
        + &entry(0x7f00_0020_0000, 10, "/dev/shm/pool", 300);
    let areas = parse_smaps(smaps.as_bytes());
    let details = Details::of(&areas, &Known::default());
    let of =
        |mapped: &Mapped| (mapped.path.clone(), mapped.bytes, mapped.times, mapped.is_elsewhere);
    let told: Vec<_> = details.shared_memory.iter().map(of).collect();
    let expected =
        [("/memfd:ring (deleted)", 2 << 20, 2, false), ("/dev/shm/pool", 1 << 20, 1, true)];
    assert_eq!(told, expected.map(|(path, bytes, times, of)| (path.to_owned(), bytes, times, of)));
    assert_eq!(details.shared_memory[0].distinct_bytes, 1 << 20);
}

#[test]
fn mapping_behind_variables_is_other() {
    for (path, term) in
        [("/usr/lib/libx.so", Term::CodeAndData), ("/memfd:ramson/libramson.so", Term::Ramson)]
    {
        let smaps = format!(
            "7effffff0000-7effffff1000 r-xp 00000000 08:01 3 {path}\n\
             7f0000000000-7f0000001000 rw-p 00001000 08:01 3 {path}\nRss: 4 kB\nAnonymous: 4 kB\n\
             7f0000001000-7f0000801000 rw-p 00000000 00:00 0\nRss: 8000 kB\nAnonymous: 8000 kB\n"
        );
        let areas = parse_smaps(smaps.as_bytes());
        let start = areas[2].start;
        let memory = present(start, areas[2].end, 1);
        let sight = Sight { variables: vec![(start, start + (256 << 10))], ..Sight::default() };
        let known = Known { memory: Some(&memory), sight, ..Known::default() };
        let explained = explain(&areas, &known);
        assert_eq!(explained.term(term) / 1024, 4 + 256, "{path}");
        assert_eq!(explained.term(Term::Other) / 1024, 8000 - 256, "{path}");
    }
}

#[test]
fn each_area_has_one_term() {
    let areas = parse_smaps(SMAPS.as_bytes());
    // The first one is shared, the others lie in one area that is larger.
    let extents = [
        0x7f00_0000_2000..0x7f00_0000_3000,
        0x7f00_0400_0000..0x7f00_0410_0000,
        0x7f00_0440_0000..0x7f00_0480_0000,
    ];
    let profile = Some("/var/tmp/ramson-0/1-2.ramson");
    let known = Known { profile, extents: &extents, ..Known::default() };
    let explained = explain(&areas, &known);
    let kib = |term| explained.term(term) / 1024;
    assert_eq!(kib(Term::CodeAndData), 4 + 4 + 8);
    assert_eq!(kib(Term::Files), 8 + 4);
    assert_eq!(kib(Term::SharedMemory), 24);
    assert_eq!(kib(Term::Ramson), 12 + 20 + 100 + 200);
    assert_eq!(kib(Term::Stacks), 16);
    assert_eq!(kib(Term::Kernel), 4);
    // By its share of the addresses, where the pages cannot be asked.
    assert_eq!(kib(Term::Mmap), 512 + 2048);
    // Private pages of a file, and of shared memory, are neither any more.
    assert_eq!(kib(Term::Other), 800 + 1536 + 8 + 16);
    let sum: i64 = Term::ALL.iter().map(|&(term, _)| explained.term(term)).sum();
    assert_eq!(sum as u64, explained.rss);
    let memory = present(0x7f00_0400_0000, 0x7f00_0480_0000, 4);
    let known = Known { memory: Some(&memory), ..known };
    assert_eq!(explain(&areas, &known).term(Term::Mmap) / 1024, 256 + 1024);
}

#[test]
fn unreadable_allocator_holds_block_areas() {
    let areas = parse_smaps(SMAPS.as_bytes());
    let extents = std::slice::from_ref(&(0x7f00_0400_0000..0x7f00_0410_0000));
    let known = Known { extents, blocks: &[0x40_4010, 0x7f00_0440_0010], ..Known::default() };
    let mut explained = explain(&areas, &known);
    let kib = |of: &Explained, term| of.term(term) / 1024;
    assert_eq!(kib(&explained, Term::Held), 800 + 4096 - 512);
    assert_eq!(kib(&explained, Term::Mmap), 512);
    // Figures that the allocator reports when it is asked divide all of the held memory.
    explained.divide_anonymous(&[(Part::Live, 1000 << 10)]);
    assert_eq!((kib(&explained, Term::Held), kib(&explained, Term::Live)), (0, 1000));
    let sum: i64 = Term::ALL.iter().map(|&(term, _)| explained.term(term)).sum();
    assert_eq!(sum as u64, explained.rss);
}

#[test]
fn extents_split_their_areas() {
    let area = |start, end| Area { start, end, ..Area::default() };
    let areas = [area(0x1000, 0x5000), area(0x5000, 0x6000), area(0x8000, 0x9000)];
    let left = |ranges: &[std::ops::Range<u64>]| -> Vec<(u64, u64)> {
        let left = crate::areas::without(&areas, ranges);
        left.iter().map(|area| (area.start, area.end)).collect()
    };
    assert_eq!(left(&[]), [(0x1000, 0x5000), (0x5000, 0x6000), (0x8000, 0x9000)]);
    assert_eq!(
        left(&[0x2000..0x3000, 0x4000..0x6000]),
        [(0x1000, 0x2000), (0x3000, 0x4000), (0x8000, 0x9000)]
    );
    assert_eq!(
        left(&[0x0..0x1000, 0x1000..0x2000, 0x7000..0x8800]),
        [(0x2000, 0x5000), (0x5000, 0x6000), (0x8800, 0x9000)]
    );
}

#[test]
fn regrown_area_counts_once() {
    let text = "\
404000-504000 rw-p 00000000 00:00 0                                      [heap]
Rss:                 800 kB
404000-604000 rw-p 00000000 00:00 0                                      [heap]
Rss:                1600 kB
7f0000000000-7f0000002000 r--p 00000000 08:01 4                          /srv/data.db
Rss:                   8 kB
";
    let areas = parse_smaps(text.as_bytes());
    let found: Vec<(u64, u64)> = areas.iter().map(|area| (area.end, area.rss / 1024)).collect();
    assert_eq!(found, [(0x60_4000, 1600), (0x7f00_0000_2000, 8)]);
}

#[test]
fn ramson_memory_is_separated() {
    let areas = parse_smaps(SMAPS.as_bytes());
    let is_own = |index: usize| is_ramsons(&areas[index], areas[..index].last(), None);
    let own: Vec<bool> = (0..areas.len()).map(is_own).collect();
    assert_eq!(own.iter().filter(|own| **own).count(), 3);
    assert_eq!(areas[8].path, "/opt/ra mson/libramson.so");
}

#[test]
fn sanitizer_shadow_is_not_ramsons() {
    let shadow = "\
2008fff7000-10007fff8000 rw-p 00000000 00:00 0
Rss:               38000 kB
Anonymous:         38000 kB
VmFlags: rd wr mr mw me nr dd nh
";
    let library = "\
7f0000000000-7f0000001000 r-xp 00000000 08:01 3                          /usr/lib/libramson.so
Rss:                   4 kB
";
    let ramsons = |smaps: &str| {
        explain(&parse_smaps(smaps.as_bytes()), &Known::default()).term(Term::Ramson) / 1024
    };
    let elsewhere = shadow.replace("2008fff7000-10007fff8000", "7e8000000000-7e9000000000");
    assert_eq!([ramsons(shadow), ramsons(&elsewhere)], [0, 0]);
    assert_eq!(ramsons(&[shadow, library].concat()), 4);
}

#[test]
fn own_terms_add_up_to_rss() {
    let request = crate::rss::Request {
        effort: Effort::Survey(glibc::MOST_WALKED_BYTES),
        profile: None,
        extents: &[],
        blocks: &[],
        blocks_inside: &[],
        is_one_of_many: false,
    };
    let reading = crate::rss::read(std::process::id(), &mut None, &request).unwrap();
    let explained = reading.explained;
    let sum: i64 = Term::ALL.iter().map(|&(term, _)| explained.term(term)).sum();
    assert_eq!(sum as u64, explained.rss);
    for term in [Term::Live, Term::Stacks, Term::CodeAndData] {
        assert!(explained.term(term) > 0, "{term:?}: {explained:?}");
    }
}

#[test]
fn parts_add_up_despite_changes() {
    let (memory, mut areas) = process();
    let statistics = read(&memory, &areas).unwrap();
    for rss in [0, 0x3000, HEAP_PAGES * PAGE_BYTES, 1 << 40] {
        areas[0].rss = rss;
        areas[1].rss = PAGE_BYTES;
        let explained = explained(&areas, &statistics);
        let sum: i64 = Part::ALL.iter().map(|&(part, ..)| explained.part(part)).sum();
        assert_eq!(sum as u64, explained.rss);
        assert_eq!(explained.rss, rss + PAGE_BYTES);
        let moved = explained.part(Part::Moved);
        assert_eq!(moved, rss as i64 - (HEAP_PAGES * PAGE_BYTES) as i64);
    }
}
