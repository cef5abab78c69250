//! The extent table against a plain model, with several threads, and how far it has to look.

use super::super::extents::{Cut, Facts};
use super::*;
use core::ops::Range;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;
/// Where Linux maps first, and then downwards.
const TOP: u64 = 0x7fff_0000_0000;

impl Recording {
    pub fn map(&self, range: &Range<u64>) {
        let facts = Facts { inverse_probability: 1.0, ..Facts::default() };
        let bytes = range.end - range.start;
        assert!(self.recorder.extents.insert(self.file(), range.start, bytes, &facts));
    }

    /// What was there.
    pub fn unmap(&self, range: &Range<u64>) -> Vec<Cut> {
        let mut cuts = Vec::new();
        assert_eq!(self.recorder.extents.cut(self.file(), range.clone(), |cut| cuts.push(cut)), 0);
        cuts
    }

    /// Blocks in which a place is taken.
    #[cfg(loom)]
    pub fn blocks_in_use(&self) -> u64 {
        let slots = self.file().committed(RegionKind::ExtentKeys);
        self.recorder.extents.blocks.around(slots, &(0..u64::MAX)).count() as u64
    }

    /// Slots that a search looks at, on average over some of `ranges`.
    fn slots_looked_at(&self, ranges: &[Range<u64>]) -> f64 {
        let slots = self.file().committed(RegionKind::ExtentKeys);
        let some = ranges.iter().step_by(ranges.len() / 500);
        let count = some.clone().count();
        let blocks = some.flat_map(|range| self.recorder.extents.blocks.around(slots, range));
        blocks.map(|block| block.end - block.start).sum::<u64>() as f64 / count as f64
    }
}

pub fn mib_at(start: u64) -> Range<u64> {
    start..start + MIB
}

#[test]
fn a_search_of_fifty_thousand_extents_looks_at_a_few_blocks() {
    const COUNT: u64 = 50_000;
    let mut draw = random_numbers(4);
    let patterns: [(&mut dyn FnMut(u64) -> u64, f64); 4] = [
        (&mut |index| TOP - index * MIB, 400.0),
        (&mut |index| TOP - index * 100 * MIB, 400.0),
        (&mut |index| if index % 2 == 0 { TOP - index * MIB } else { index * MIB }, 400.0),
        (&mut |_| draw(TOP / MIB) * MIB, 10_000.0),
    ];
    for (number, (address, most)) in patterns.into_iter().enumerate() {
        let recording = Recording::new(64 * MIB);
        // Address space that is only reserved lies around all of it.
        recording.map(&(MIB..1 << 39));
        let ranges: Vec<_> = (0..COUNT).map(|index| mib_at(address(index))).collect();
        ranges.iter().for_each(|range| recording.map(range));
        let looked_at = recording.slots_looked_at(&ranges);
        assert!(looked_at < most, "pattern {number}: {looked_at}");
    }
}

#[test]
fn a_search_looks_at_a_few_blocks_when_extents_have_come_and_gone_many_times() {
    let mut draw = random_numbers(5);
    let recording = Recording::new(64 * MIB);
    // As the kernel does it: the highest address that is free.
    let mut free: BTreeSet<u64> = (0..20_000).collect();
    let mut live = Vec::new();
    for _ in 0..10 {
        while let Some(index) = free.pop_first() {
            live.push(index);
            recording.map(&mib_at(TOP - index * MIB));
        }
        let ranges: Vec<_> = live.iter().map(|index| mib_at(TOP - index * MIB)).collect();
        let looked_at = recording.slots_looked_at(&ranges);
        assert!(looked_at < 1000.0, "{looked_at}");
        while live.len() > 2_000 {
            let index = live.swap_remove(draw(live.len() as u64) as usize);
            assert_eq!(recording.unmap(&mib_at(TOP - index * MIB)).len(), 1);
            free.insert(index);
        }
    }
}

/// Pages of a thread's part of the address space.
const PAGES: u64 = 2000;
const THREADS: u64 = 4;

fn pages_at(thread: u64, pages: Range<u64>) -> Range<u64> {
    // The threads' parts lie so close that they share blocks.
    let address = |page| TOP + (thread * PAGES + page) * PAGE_BYTES;
    address(pages.start)..address(pages.end)
}

/// Maps over and unmaps parts of what is a thread's own. Returns what is mapped at the end: the first page's number for each page.
fn map_and_unmap(recording: &Recording, thread: u64) -> Vec<Option<u64>> {
    let mut draw = random_numbers(thread + 60);
    let mut mapped: Vec<Option<u64>> = vec![None; PAGES as usize];
    for step in 0..4_000 {
        let (start, longest) = (draw(PAGES), 1 << draw(8));
        let pages = start..(start + 1 + draw(longest)).min(PAGES);
        let range = pages_at(thread, pages.clone());
        let known = &mut mapped[pages.start as usize..pages.end as usize];
        let cuts = recording.unmap(&range);
        let bytes: u64 = cuts.iter().map(|cut| cut.bytes).sum();
        assert_eq!(bytes, known.iter().flatten().count() as u64 * PAGE_BYTES);
        assert!(cuts.iter().all(|cut| range.contains(&cut.start)));
        let is_mapped = draw(2) == 0;
        known.fill(is_mapped.then_some(step));
        if is_mapped {
            let facts = Facts { monotonic_ns: step, tid: thread as u32, ..Facts::default() };
            let bytes = range.end - range.start;
            assert!(recording.recorder.extents.insert(
                recording.file(),
                range.start,
                bytes,
                &facts
            ));
        }
    }
    mapped
}

#[test]
fn threads_that_cut_what_is_their_own_find_all_of_it_and_nothing_else() {
    let recording = Recording::new(16 * MIB);
    let (table, file) = (&recording.recorder.extents, recording.file());
    let known: Vec<_> = std::thread::scope(|scope| {
        let work = |thread| {
            let recording = &recording;
            scope.spawn(move || map_and_unmap(recording, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (thread, pages) in known.iter().enumerate() {
        for (page, step) in pages.iter().enumerate() {
            let mut found = Vec::new();
            let range = pages_at(thread as u64, page as u64..page as u64 + 1);
            assert_eq!(table.cut(file, range, |cut| found.push(cut.facts)), 0);
            let of = found.first().map(|facts| (facts.monotonic_ns, facts.tid));
            assert_eq!(
                (of, found.len()),
                (step.map(|step| (step, thread as u32)), step.iter().count())
            );
        }
    }
    assert!(table.is_empty());
    let slots = file.committed(RegionKind::ExtentKeys) as usize;
    let keys = file.slice::<AtomicU64>(RegionKind::ExtentKeys, 0, slots).unwrap();
    assert!(keys.iter().all(|key| key.load(Relaxed) == 0));
}
