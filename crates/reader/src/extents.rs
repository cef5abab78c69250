//! Extents as they are, from extents as they were recorded: the recorder knows nothing of what was
//! mapped over the middle of one, or unmapped there.

use crate::snapshot::{Extent, Snapshot};
use ramson_format::flags;
use std::collections::BTreeMap;
use std::ops::Range;

impl Extent {
    fn part(&self, range: Range<u64>) -> Self {
        Self { start: range.start, bytes: range.end - range.start, ..*self }
    }
}

/// By address. Each comes with its moment: of two that overlap, the later was mapped over the
/// earlier, whose other parts stay.
pub fn without_overlap<M: Ord>(mut extents: Vec<(Extent, M)>) -> Vec<Extent> {
    extents.sort_by(|(_, one), (_, other)| other.cmp(one));
    // Starts and ends of what the later ones cover together.
    let mut covered = BTreeMap::<u64, u64>::new();
    let mut parts = Vec::new();
    for (extent, _) in &extents {
        let mut all = extent.start..extent.start + extent.bytes;
        let mut add = |range: Range<u64>| {
            parts.extend((range.start < range.end).then(|| extent.part(range)));
        };
        let mut rest = all.clone();
        while let Some((&start, &end)) = covered.range(..=rest.end).next_back()
            && end >= rest.start
        {
            covered.remove(&start);
            add(end..rest.end);
            rest.end = start.clamp(rest.start, rest.end);
            all = all.start.min(start)..all.end.max(end);
        }
        add(rest);
        covered.insert(all.start, all.end);
    }
    parts.sort_unstable_by_key(|part| part.start);
    parts
}

impl Snapshot {
    // Hazard, never seen: a program gets malloc memory, a thread's stack or a mapping below 1 MiB in
    // a hole of an extent. While the program runs, that memory counts twice, as part of the extent
    // and as what it is, and *other anonymous* is too low by as much.
    //
    // Hazard, never seen: a program unmaps an extent by a raw system call, and later maps less than
    // 1 MiB at its start. While the program runs, that mapping counts under the extent's stack.
    /// Leaves of the extents what is in `mapped`: the ranges of anonymous memory that the process
    /// has, by address.
    pub fn clip_extents(&mut self, mapped: &[Range<u64>]) {
        self.header.flags |= flags::CLIPPED;
        let mut parts: Vec<Extent> = Vec::new();
        for extent in &self.extents {
            let end = extent.start + extent.bytes;
            let first = mapped.partition_point(|range| range.end <= extent.start);
            let mut at = 0;
            for range in mapped[first..].iter().take_while(|range| range.start < end) {
                let part = extent.part(range.start.max(extent.start)..range.end.min(end));
                match parts.last_mut() {
                    // The kernel keeps neighbours with other access rights apart.
                    Some(last) if at == part.start => last.bytes += part.bytes,
                    _ => parts.push(part),
                }
                at = part.start + part.bytes;
            }
        }
        self.extents = parts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(range: Range<u64>, stack: usize) -> Extent {
        Extent { start: range.start, bytes: range.end - range.start, stack, ..Extent::default() }
    }

    fn ranges(extents: &[Extent]) -> Vec<(u64, u64, usize)> {
        extents.iter().map(|each| (each.start, each.start + each.bytes, each.stack)).collect()
    }

    #[test]
    fn later_extent_wins_overlap() {
        let reserved = (extent(0..100, 1), 1);
        let (inside, at_start, over_end) =
            ((extent(20..30, 2), 2), (extent(0..5, 3), 4), (extent(90..110, 4), 3));
        let over_all = (extent(0..200, 5), 9);
        let parts = without_overlap(vec![inside, over_end, reserved, at_start]);
        let expected = [(0, 5, 3), (5, 20, 1), (20, 30, 2), (30, 90, 1), (90, 110, 4)];
        assert_eq!(ranges(&parts), expected);
        let parts = without_overlap(vec![inside, over_all, reserved, at_start, over_end]);
        assert_eq!(ranges(&parts), [(0, 200, 5)]);
    }

    #[test]
    fn places_belong_to_latest_extent() {
        let mut random = 1u64;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % bound
        };
        for _ in 0..2000 {
            let mut owners = [None; 64];
            let mut extents = Vec::new();
            for moment in 0..below(12) as usize {
                let start = below(64);
                let range = start..start + below(65 - start);
                owners[range.start as usize..range.end as usize].fill(Some(moment));
                extents.push((extent(range, moment), moment));
            }
            let mut found = [None; 64];
            for part in without_overlap(extents) {
                let place = part.start as usize..(part.start + part.bytes) as usize;
                assert!(found[place.clone()].iter().all(Option::is_none));
                found[place].fill(Some(part.stack));
            }
            assert_eq!(found, owners);
        }
    }

    #[test]
    fn extents_are_clipped_to_mappings() {
        let extents = vec![extent(10..50, 1), extent(50..60, 2), extent(70..80, 3)];
        let mut snapshot = Snapshot { extents, ..Snapshot::default() };
        snapshot.clip_extents(&[0..15, 20..25, 25..30, 45..55, 90..100]);
        let expected = [(10, 15, 1), (20, 30, 1), (45, 50, 1), (50, 55, 2)];
        assert_eq!(ranges(&snapshot.extents), expected);
        assert_eq!(snapshot.header.flags, flags::CLIPPED);
    }
}
