//! Targets that read what the kernel and the allocator tell of a process, and files of suppressions.

use crate::choices::{Choices, sized};
use crate::seed::Seed;
use ramson_leaks::Suppressions;
use ramson_process::glibc::{self, Effort};
use ramson_process::rss::{Known, explain};
use ramson_process::{Area, Memory, PAGE_BYTES, parse_smaps};

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
