//! A made-up process whose C library has no fastbins, keeps large blocks in tcaches, and threads' stacks in one area.

use super::*;
use crate::stacks::thread_pointers;

const MAPPED: u64 = DATA + 0x10_0000;
const MAPPED_PAGES: u64 = 3;
const SMALL: u64 = HEAP + 0x300;
const LARGE: u64 = SMALL + 0x70;
const FREE: u64 = LARGE + 0x1000;
const LOADER: u64 = DATA + 0x20_0000;
const STACKS: u64 = DATA + 0x30_0000;
const STACK_BYTES: u64 = 0x8000;
const VARIABLES: u64 = DATA + 0x40_0000;

/// The data of the C library, and a heap that holds one tcache, a free chunk of three pages and chunks in use; the tcache holds a small chunk,
/// one of a page, and one that was mapped.
pub fn process() -> (Snapshot, Vec<Area>) {
    let mut memory = Snapshot::default();
    let pages = [(HEAP, HEAP_PAGES), (DATA, 1), (MAPPED, MAPPED_PAGES)];
    for (start, pages) in pages {
        (0..pages).for_each(|page| memory.set(start + page * PAGE_BYTES, 0));
    }
    for bin in 0..127 {
        let offset = MAIN_ARENA + 0x18 + 16 * bin;
        memory.set(offset, offset - 16);
        memory.set(offset + 8, offset - 16);
    }
    memory.set(MAIN_ARENA + 8, TOP);
    memory.set(MAIN_ARENA + 0x818, MAIN_ARENA);
    memory.set(MAIN_ARENA + 0x828, 1);
    memory.set(MAIN_ARENA + 0x830, HEAP_PAGES * PAGE_BYTES);
    memory.set(MAIN_ARENA + 0x838, HEAP_PAGES * PAGE_BYTES);
    for (offset, word) in [(0, 128 << 10), (8, 128 << 10), (16, 128 << 10), (24, 8)] {
        memory.set(PARAMETERS + offset, word);
    }
    // One block was mapped; twice such a block grew. Blocks of up to 99,992 bytes are cached.
    memory.set(PARAMETERS + 64, 1 << 32);
    memory.set(PARAMETERS + 72, 1 << 32 | 65536);
    let counted = MAPPED_PAGES * PAGE_BYTES + 32;
    for (offset, word) in [(88, counted), (96, counted), (104, HEAP), (112, 64)] {
        memory.set(PARAMETERS + offset, word);
    }
    memory.set(PARAMETERS + 120, 100_001);
    memory.set(PARAMETERS + 128, 16);
    let mut at = HEAP;
    for head in [0x301, 0x71, 0x1001, 0x4001, 0x30] {
        memory.set(at + 8, head);
        at += head & !7;
    }
    memory.set(FREE + 0x4000, 0x4000);
    memory.set(at + 8, (TOP - at) | 1);
    memory.set(TOP + 8, (HEAP + HEAP_PAGES * PAGE_BYTES - TOP) | 1);
    memory.set(MAPPED + 8, (MAPPED_PAGES * PAGE_BYTES - 16) | 2);
    // Room for 16 of each size but for what is there: one of 0x70, one of a page and one of less than three.
    let counters = HEAP + 16;
    let lists = counters + 152;
    (0..19).for_each(|word| memory.set(counters + 8 * word, 0x0010_0010_0010_0010));
    memory.set(counters + 8, 0x0010_0010_000f_0010);
    memory.set(counters + 8 * 16, 0x000f_000f_0010_0010);
    memory.set(lists + 8 * 5, SMALL + 16);
    memory.set(SMALL + 16, (SMALL + 16) >> 12);
    for (bin, block) in [(66, LARGE + 16), (67, MAPPED + 16)] {
        memory.set(lists + 8 * bin, block);
        memory.set(block, block >> 12);
    }
    let heap = area(HEAP, HEAP + HEAP_PAGES * PAGE_BYTES, "[heap]");
    let rss = MAPPED_PAGES * PAGE_BYTES;
    let mapped = Area { rss, ..area(MAPPED, MAPPED + rss, "") };
    (memory, vec![heap, area(DATA, DATA + PAGE_BYTES, "/lib/libc.so.6"), mapped])
}

fn read(memory: &Snapshot, areas: &[Area]) -> Statistics {
    glibc::read(memory, areas, &[&areas[1]], (2, 43), Effort::Exact).unwrap()
}

#[test]
fn large_tcache_chunks_are_counted() {
    let (mut memory, areas) = process();
    let statistics = read(&memory, &areas);
    let tcaches = statistics.arenas[0].tcaches;
    assert_eq!((tcaches.chunks, tcaches.mapped_chunks), (3, 1));
    assert_eq!(tcaches.bytes, 0x70 + 0x1000 + MAPPED_PAGES * PAGE_BYTES);
    assert_eq!((tcaches.resident_bytes, tcaches.is_cut), (tcaches.bytes, false));
    assert_eq!(statistics.parameters.tcache_max_bytes, 99_992);
    assert_eq!((statistics.mapped.chunks, statistics.mapped.bytes), (1, MAPPED_PAGES * PAGE_BYTES));
    assert!(statistics.has_all_mapped);
    // The program has what is left: two chunks of the heap.
    let in_use = 0x30 + (TOP - (FREE + 0x4030));
    assert_eq!(statistics.live_bytes(), in_use + 0x300);
    memory.pages.remove(&(MAPPED + PAGE_BYTES));
    let resident = read(&memory, &areas).arenas[0].tcaches.resident_bytes;
    assert_eq!(resident, tcaches.bytes - PAGE_BYTES);
}

#[test]
fn invalid_tcache_lists_are_none() {
    let (memory, areas) = process();
    let lists = HEAP + 16 + 152;
    let large = LARGE + 16;
    let spoilt = [
        // More than one chunk, a chunk of another size, no chunk at all; more room than there is.
        (large, (large >> 12) ^ (SMALL + 16)),
        (lists + 8 * 66, SMALL + 16),
        (lists + 8 * 66, 0),
        (HEAP + 16, 0x0010_0010_0010_0011),
    ];
    for (address, word) in spoilt {
        let mut memory = memory.clone();
        memory.set(address, word);
        assert_eq!(read(&memory, &areas).arenas[0].tcaches.chunks, 0, "{address:x}");
    }
}

#[test]
fn inconsistent_tcache_limits_are_refused() {
    let limits = |version, bins, limit| {
        let (mut memory, areas) = process();
        memory.set(PARAMETERS + 112, bins);
        memory.set(PARAMETERS + 120, limit);
        let statistics = glibc::read(&memory, &areas, &[&areas[1]], version, Effort::Exact);
        statistics.map(|statistics| statistics.parameters.tcache_max_bytes)
    };
    for (bins, limit, most) in [
        (64, 1041, 1032),
        // In 2.42 as it was released.
        (64, 1032, 1016),
        (64, 1040, 1016),
        (1, 33, 24),
        (1, 32, 0),
        (10, 177, 168),
        (64, (4 << 20) - 15, (4 << 20) - 24),
    ] {
        assert_eq!(limits((2, 43), bins, limit), Ok(most), "{bins} {limit}");
    }
    for (bins, limit) in [(64, 1033), (63, 1041), (0, 33), (11, 177), (64, (4 << 20) + 1), (1, 0)] {
        assert_eq!(limits((2, 43), bins, limit), Err(NO_PARAMETERS.into()), "{bins} {limit}");
    }
}

/// The descriptor of a thread, with its links, and the C library's record of the stack.
fn set_descriptor(memory: &mut Snapshot, own: u64, links: (u64, u64), stack: (u64, u64, u64)) {
    let words = [(0, own), (16, own), (704, links.0), (712, links.1)];
    let record = [(1680, stack.0), (1688, stack.1), (1696, stack.2)];
    (0..296).for_each(|word| memory.set(own + 8 * word, 3));
    words.into_iter().chain(record).for_each(|(offset, word)| memory.set(own + offset, word));
}

#[test]
fn stacks_are_found_by_thread_list() {
    let (mut memory, mut areas) = process();
    let heads = [LOADER + 0x800, LOADER + 0x810];
    let last = STACKS + 2 * STACK_BYTES;
    let threads = [last - 0x940, last - STACK_BYTES - 0x940];
    let first_thread = VARIABLES + 0x740;
    let link = |descriptor| descriptor + 704;
    memory.set(heads[0], link(threads[0]));
    memory.set(heads[0] + 8, link(threads[1]));
    memory.set(heads[1], link(first_thread));
    memory.set(heads[1] + 8, link(first_thread));
    let stack = |index: u64| (STACKS + (1 - index) * STACK_BYTES, STACK_BYTES, PAGE_BYTES);
    set_descriptor(&mut memory, threads[0], (link(threads[1]), heads[0]), stack(0));
    set_descriptor(&mut memory, threads[1], (heads[0], link(threads[0])), stack(1));
    set_descriptor(&mut memory, first_thread, (heads[1], heads[1]), (0, STACKS, 0));
    areas.push(area(LOADER, LOADER + PAGE_BYTES, "/lib/ld-linux-x86-64.so.2"));
    areas.push(area(STACKS, last, ""));
    areas.push(area(VARIABLES, VARIABLES + 2 * PAGE_BYTES, ""));
    assert_eq!(Stacks::of(&memory, &areas).areas, [STACKS]);
    // Chunks by which a survey finds tcaches: variables of the first thread refer to one, too.
    memory.set(first_thread - 0x80, HEAP + 16);
    memory.set(threads[1] - 0x80, SMALL + 16);
    let chunks = thread_pointers(&memory, &areas);
    assert!(chunks.contains(&HEAP) && chunks.contains(&SMALL), "{chunks:x?}");
    // The first of the two has ended; it began with a function at 0x402000, and has variables in a module.
    let place = |area: &mut Area| area.permissions = *b"r-xp";
    areas.insert(0, area(0x40_0000, 0x40_4000, "/opt/server"));
    place(&mut areas[0]);
    memory.set(threads[0] + 720, 0);
    memory.set(threads[0] + 1600, 0x40_2000);
    let vector = VARIABLES + 0x20;
    memory.set(threads[0] + 8, vector);
    for (offset, word) in [(-16, 1), (16, threads[0] - 0x140), (24, 0)] {
        memory.set(vector.wrapping_add_signed(offset), word);
    }
    let stacks = Stacks::of(&memory, &areas);
    assert_eq!(stacks.ended, vec![last - STACK_BYTES + PAGE_BYTES..last]);
    assert_eq!(stacks.ended_function, Some(0x40_2000));
    assert!(stacks.thread_locals.contains(&(threads[0] - 0x140..threads[0])));
    // A link that does not lead back ends a list.
    memory.set(link(threads[0]) + 8, 64);
    memory.set(heads[1], 64);
    assert_eq!(Stacks::of(&memory, &areas).areas, [0_u64; 0]);
}
