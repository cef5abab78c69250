//! Which unit of the debug information spans an address, so that threads share out units and none is parsed by two.

use gimli::Dwarf;
use std::collections::BTreeMap;

use crate::bytes::Bytes;

/// Ranges of units may overlap; a look-up goes through no more than this.
const MAX_OVERLAPPING: usize = 8;

struct Range {
    begin: u64,
    end: u64,
    unit: usize,
}

/// `addresses` by unit, those of the largest unit first. Units that do not say what they span are one group.
pub(crate) fn by_unit(dwarf: &Dwarf<Bytes<'_>>, addresses: &[u64]) -> Vec<Vec<u64>> {
    let mut ranges = Vec::new();
    let mut sizes_bytes = Vec::new();
    // A unit that cannot be read here is reported when an address is looked up.
    let _ = read_ranges(dwarf, &mut ranges, &mut sizes_bytes);
    ranges.sort_unstable_by_key(|range| range.begin);
    let unit_of = |address: u64| {
        let after = ranges.partition_point(|range| range.begin <= address);
        let before = ranges[..after].iter().rev().take(MAX_OVERLAPPING);
        before.clone().find(|range| address < range.end).map(|range| range.unit)
    };
    let mut groups: BTreeMap<Option<usize>, Vec<u64>> = BTreeMap::new();
    for &address in addresses {
        groups.entry(unit_of(address)).or_default().push(address);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(unit, _)| {
        std::cmp::Reverse(unit.map_or(usize::MAX, |unit| sizes_bytes[unit]))
    });
    groups.into_iter().map(|(_, addresses)| addresses).collect()
}

fn read_ranges(
    dwarf: &Dwarf<Bytes<'_>>,
    ranges: &mut Vec<Range>,
    sizes_bytes: &mut Vec<usize>,
) -> gimli::Result<()> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = sizes_bytes.len();
        sizes_bytes.push(header.length_including_self());
        let Ok(parsed) = dwarf.unit(header) else { continue };
        let Ok(mut spans) = dwarf.unit_ranges(&parsed) else { continue };
        while let Ok(Some(span)) = spans.next() {
            ranges.push(Range { begin: span.begin, end: span.end, unit });
        }
    }
    Ok(())
}
