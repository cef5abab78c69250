//! Made-up processes with memory that is spoilt, or gone.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn spoilt_memory_never_panics(
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0..4u8), 1..60),
        removed in prop::collection::vec(0..HEAP_PAGES, 0..3),
        is_newer in any::<bool>(),
    ) {
        let (mut memory, areas) = if is_newer { newer::process() } else { process() };
        let version = if is_newer { (2, 43) } else { (2, 36) };
        for (index, random, kind) in spoilt {
            let address = match kind {
                0 => DATA + index.index(512) as u64 * 8,
                _ => HEAP + index.index(HEAP_PAGES as usize * 512) as u64 * 8,
            };
            // Not only any word, but also one that looks like a size, or an address in the heap.
            let word = match random % 3 {
                0 => random,
                1 => random >> 48,
                _ => HEAP + (random >> 48) / 16 * 16,
            };
            memory.set(address, word);
        }
        for page in removed {
            memory.pages.remove(&(HEAP + page * PAGE_BYTES));
        }
        for effort in [Effort::Exact, Effort::Survey(0)] {
            let statistics = glibc::read(&memory, &areas, &[&areas[1]], version, effort);
            let Ok(statistics) = statistics else { continue };
            for block in (HEAP..HEAP + HEAP_PAGES * PAGE_BYTES).step_by(16) {
                glibc::beside(&memory, &statistics, block);
            }
            let explained = explained(&areas, &statistics);
            let sum: i64 = Part::ALL.iter().map(|&(part, ..)| explained.part(part)).sum();
            prop_assert_eq!(sum as u64, explained.rss);
        }
    }
}
