//! Targets that read what the kernel and the allocator tell of a process, and files of suppressions.

use crate::choices::{Choices, sized};
use crate::seed::Seed;
use ramson_leaks::Suppressions;
use ramson_process::glibc::{self, Effort};
use ramson_process::go::{self, Runtime};
use ramson_process::rss::{Known, explain};
use ramson_process::{
    Area, Memory, PAGE_BYTES, go_collector, go_goroutines, go_memory, parse_smaps,
};

const DATA: u64 = 0x7f00_0000_0000;
const HEAP: u64 = 0x5555_0000_0000;
const MOST_AREAS: u64 = 65_536;
/// PATH_MAX.
const MOST_PATH_BYTES: u64 = 4096;
const MOST_TEXT_BYTES: u64 = 16 << 20;

struct Pages<'a> {
    data: &'a [u8],
    heap: &'a [u8],
}

impl Memory for Pages<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let is_heap = address < DATA;
        let (start, bytes) = if is_heap { (HEAP, self.heap) } else { (DATA, self.data) };
        let at = address.checked_sub(start).expect("not below what is there") as usize;
        buffer.copy_from_slice(&bytes[at..at + buffer.len()]);
        true
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        for (first, bytes) in [(HEAP, self.heap), (DATA, self.data)] {
            let (from, to) = (start.max(first), end.min(first + bytes.len() as u64));
            if from < to {
                visit(from, to);
            }
        }
        true
    }
}

fn area(start: u64, bytes: &[u8], path: &str) -> Area {
    let (length, permissions) = (bytes.len() as u64, *b"rw-p");
    let (rss, path) = (length, path.to_owned());
    Area { start, end: start + length, permissions, path, rss, anonymous: rss, ..Area::default() }
}

/// Whatever a process's heap and the C library's data hold: the statistics are read or refused, and no page is read that is not
/// there. The first byte is the layout; then comes the library's page, then the heap.
pub fn read_allocator_books(bytes: &[u8]) {
    let Some((&minor, pages)) = bytes.split_first() else { return };
    let whole = &pages[..pages.len() / PAGE_BYTES as usize * PAGE_BYTES as usize];
    if whole.len() < 2 * PAGE_BYTES as usize {
        return;
    }
    let (data, heap) = whole.split_at(PAGE_BYTES as usize);
    let memory = Pages { data, heap };
    let areas = [area(HEAP, heap, "[heap]"), area(DATA, data, "/lib/libc.so.6")];
    for effort in [Effort::Exact, Effort::Survey(0)] {
        let version = (2, u32::from(minor));
        let Ok(statistics) = glibc::read(&memory, &areas, &[&areas[1]], version, effort) else {
            continue;
        };
        for block in (HEAP..HEAP + heap.len() as u64).step_by(256) {
            glibc::beside(&memory, &statistics, block);
        }
        explain(&areas, &Known { statistics: Some(&statistics), ..Known::default() });
    }
}

/// Where the memory of a Go program is, and its variables in it: the list of buckets, the interval, the list of goroutines, the arenas, the
/// controller and the statistics.
const GO: u64 = 0x10_0000;
const VARIABLES: [u64; 6] = [GO, GO + 8, GO + 16, GO + 32, GO + 64, GO + 512];
/// Where the seed has its objects.
const OBJECTS: u64 = GO + 0x4000;

struct GoMemory<'a>(&'a [u8]);

impl Memory for GoMemory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let from = address.checked_sub(GO).and_then(|from| usize::try_from(from).ok());
        let there = from.and_then(|from| self.0.get(from..from.checked_add(buffer.len())?));
        there.map(|there| buffer.copy_from_slice(there)).is_some()
    }

    fn present_runs(&self, start: u64, end: u64, visit: &mut dyn FnMut(u64, u64)) -> bool {
        let (from, to) = (start.max(GO), end.min(GO + self.0.len() as u64));
        if from < to {
            visit(from, to);
        }
        true
    }
}

/// Whatever the memory of a Go program holds: its heap, its goroutines and its collector are read or refused, and what is read can be true. The first
/// byte is the version.
pub fn read_go_memory(bytes: &[u8]) {
    let Some((&version, bytes)) = bytes.split_first() else { return };
    let version = format!("go1.{}.1", 21 + version % 7);
    let [buckets, interval, goroutines, arenas, controller, statistics] = VARIABLES;
    let goroutines = Some(goroutines);
    let runtime = Runtime {
        version,
        bias: 0,
        at: 0,
        buckets,
        interval,
        arenas,
        controller,
        statistics,
        goroutines,
    };
    let memory = GoMemory(bytes);
    if let Ok(Some((_, buckets))) = go::read(&memory, &runtime) {
        assert!(buckets.iter().all(|bucket| bucket.freed <= bucket.allocated));
    }
    if let Some(found) = go_goroutines::read(&memory, &runtime) {
        let all = || found.groups.iter();
        assert!(all().all(|group| group.count > 0 && group.stack.len() > 1));
        assert!(found.waiting.len() as u64 <= all().map(|group| group.count).sum());
    }
    if let Some(look) = go_collector::look(&memory, &runtime, 0) {
        assert!(look.ended.len() <= 256 && (0.0..=1.0).contains(&look.cpu_share));
        let areas = [Area { path: String::new(), ..area(GO, bytes, "") }];
        let parts = go_memory::parts(&memory, &runtime, &look.collector, &areas);
        assert!(parts.is_none_or(|parts| parts.len() == 6));
    }
}

/// Seeds of `read_go_memory`: two buckets, a goroutine that waits and one that runs.
pub fn go_memory() -> Vec<Seed> {
    let mut bytes = vec![0; 1 + 0x5000];
    bytes[0] = 5;
    let mut put = |address: u64, words: &[u64]| {
        let place = 1 + (address - GO) as usize;
        for (word, to) in words.iter().zip(bytes[place..].chunks_exact_mut(8)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    };
    put(GO, &[OBJECTS, 512 << 10, OBJECTS + 0x200, 2]);
    put(
        OBJECTS,
        &[0, OBJECTS + 0x80, 1, 99, 4096, 2, 0x40_1000, 0x40_2000, 5, 2, 5 * 4096, 2 * 4096],
    );
    put(OBJECTS + 0x80, &[0, 0, 1, 98, 64, 0, 1, 1, 64, 64]);
    put(OBJECTS + 0x200, &[OBJECTS + 0x400, OBJECTS + 0x600]);
    for (at, status) in [(OBJECTS + 0x400, 4), (OBJECTS + 0x600, 2)] {
        let stack = at + 0x180;
        put(at, &[stack, stack + 0x80]);
        put(at + 56, &[stack + 8, 0x40_1010]);
        put(at + 96, &[stack + 16]);
        put(at + 144, &[status, 7, 0, 5000]);
        put(at + 288, &[0x40_3000, 0, 0x40_4000]);
        put(stack + 16, &[stack + 32, 0x40_1020, stack + 48, 0x40_1030, 0, 0x40_1040]);
    }
    // Three collections, of which one was asked for.
    put(GO + 512 + 7680, &[1 << 32 | 3]);
    let waits = bytes.clone();
    let share = 1 + 512 + 7688;
    bytes[share..share + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    vec![Seed::new("waits", waits), Seed::new("share-is-no-number", bytes)]
}

/// Whatever texts say that are not ours: smaps of the kernel, whose names processes choose, and files of suppressions. The first
/// line is a name that the suppressions are asked about.
pub fn read_texts(bytes: &[u8]) {
    parse_smaps(bytes);
    let text = String::from_utf8_lossy(bytes);
    let (name, patterns) = text.split_once('\n').unwrap_or_default();
    match Suppressions::parse(patterns) {
        Ok(suppressions) => {
            let matching = suppressions.matching(std::iter::once(name));
            assert!(matching.is_none_or(|pattern| patterns.contains(pattern)));
        }
        Err(bad) => assert_eq!(bad.to_string().lines().count(), 1),
    }
}

/// A text of smaps that the input describes: as many mappings as the kernel allows, with the longest names, in order or not.
pub fn smaps_text(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let path_bytes = choices.size(MOST_PATH_BYTES);
    let count = choices.size(MOST_AREAS).min(MOST_TEXT_BYTES / (path_bytes + 64));
    // How far an area is from the one before; 0: all overlap.
    let (stride, kind) = (u64::from(choices.byte()) << 12, choices.byte());
    let path = match kind % 4 {
        0 => format!("/{}", "a".repeat(path_bytes as usize)),
        1 => "[heap]".to_owned(),
        2 => format!("[anon:{}]", "é\n".repeat(path_bytes as usize / 4)),
        _ => String::new(),
    };
    let mut text = String::new();
    for index in 0..count {
        let start = HEAP + index * stride;
        let end = start + PAGE_BYTES * (1 + index % 3);
        text += &format!(
            "{start:x}-{end:x} rw-p 00000000 08:01 7 {path}\nRss: 4 kB\nAnonymous: 4 kB\n"
        );
    }
    explain(&parse_smaps(text.as_bytes()), &Known::default());
}

/// Seeds of `smaps_text`: bytes of a path, areas, pages between them, kind of their path.
pub fn smaps() -> Vec<Seed> {
    let described = |path_bytes, areas, last: [u8; 2]| {
        [sized(path_bytes).as_slice(), &sized(areas), &last].concat()
    };
    vec![
        Seed::new("plain", described(20, 30, [5, 0])),
        Seed::new("names-of-two-lines", described(20, 30, [1, 2])),
        Seed::new("all-at-one-place", described(9, 5000, [0, 3])),
        Seed::new("as-many-as-there-can-be", described(900, 65_400, [5, 0])),
    ]
}

/// Seeds of `read_allocator_books`: an arena without a chunk. fuzz/seeds has a whole heap.
pub fn books() -> Vec<Seed> {
    let mut pages = vec![0; 1 + 3 * PAGE_BYTES as usize];
    pages[0] = 36;
    // Empty bins point to themselves.
    for bin in 0..254_u64 {
        let at = 0x100 + 0x70 + 8 * bin;
        let link = DATA + at / 16 * 16 - 16;
        pages[1 + at as usize..][..8].copy_from_slice(&link.to_le_bytes());
    }
    vec![Seed::new("empty-arena", pages)]
}

/// Seeds of `read_texts`.
pub fn texts() -> Vec<Seed> {
    let areas = b"555500000000-555500001000 rw-p 00000000 08:01 7 [heap]\nRss: 4 kB\n";
    let suppressions = b"main\n# mine\nleak:^ma*n$\nleak:lib*.so\n";
    vec![Seed::new("areas", areas.to_vec()), Seed::new("suppressions", suppressions.to_vec())]
}
