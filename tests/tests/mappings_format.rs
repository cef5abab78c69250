//! The promises of FORMAT.md for extents: cut, damaged, and read while their program maps and unmaps.

use ramson_format::{Header, RegionKind};
use ramson_reader::{Defect, Extent, LookupAddress, ReadAt, Snapshot};
use ramson_tests::{Random, Run, profiles_in, program, read, read_bytes};
use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::mem::offset_of;
use std::ops::Range;

/// The file that `corners` leaves, and what it says.
fn corners() -> (Vec<u8>, Snapshot) {
    let finished = Run::new(program("mappings.c")).env("RAMSON_MAX_FILE", "2M").succeed();
    let bytes = std::fs::read(&finished.profiles[0]).unwrap();
    let snapshot = read_bytes(&bytes).unwrap();
    assert_eq!(snapshot.defects, []);
    assert!(snapshot.extents.len() > 30);
    (bytes, snapshot)
}

/// The committed bytes of a region.
fn region(bytes: &[u8], kind: RegionKind) -> Range<usize> {
    let row = kind.row();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    word(row)..word(row) + word(row + 16) * kind.entry_bytes() as usize
}

/// What an extent says beside its range, with the frames of its stack instead of a number.
fn told<'a>(
    snapshot: &'a Snapshot,
    extent: &Extent,
) -> (u64, u64, u32, bool, bool, &'a [LookupAddress]) {
    let Extent { inverse_probability, monotonic_ns, tid, is_reserved, is_shared, .. } = *extent;
    let frames = snapshot.stacks[extent.stack].frames.as_slice();
    (inverse_probability.to_bits(), monotonic_ns, tid, is_reserved, is_shared, frames)
}

fn range(extent: &Extent) -> Range<u64> {
    extent.start..extent.start + extent.bytes
}

#[test]
fn a_profile_cut_at_any_byte_yields_every_extent_before() {
    let (bytes, whole) = corners();
    let (keys, entries) =
        (region(&bytes, RegionKind::ExtentKeys), region(&bytes, RegionKind::Extents));
    assert!(keys.end <= entries.start);
    let slots: Vec<usize> =
        (0..keys.len() / 8).filter(|slot| bytes[keys.start + slot * 8..][..8] != [0; 8]).collect();
    assert_eq!(slots.len(), whole.extents.len());
    let mut random = Random::new(7);
    for round in 0..1000 {
        let slot = slots[random.below(slots.len() as u64) as usize];
        // A third at the ends of records and next to them.
        let cut = match round % 3 {
            0 => entries.start + (slot + 1) * 64 - random.below(2) as usize,
            1 => keys.start + random.below(keys.len() as u64) as usize,
            _ => entries.start + random.below(entries.len() as u64) as usize,
        };
        let snapshot = read_bytes(&bytes[..cut]).unwrap();
        let ends = slots.iter().map(|slot| entries.start + (slot + 1) * 64);
        assert_eq!(snapshot.extents.len(), ends.filter(|end| *end <= cut).count(), "cut at {cut}");
        assert!(snapshot.extents.iter().all(|extent| whole.extents.contains(extent)));
        assert!(!snapshot.defects.is_empty());
    }
}

/// A key is one word, so it is never torn; damage to it can at most take a part for the whole.
#[test]
fn no_flipped_bit_makes_an_extent_where_nothing_was_mapped() {
    let (mut bytes, whole) = corners();
    let known: HashSet<_> = whole.extents.iter().map(|extent| told(&whole, extent)).collect();
    let regions = [region(&bytes, RegionKind::ExtentKeys), region(&bytes, RegionKind::Extents)];
    let mut random = Random::new(6);
    for round in 0..4_000 {
        let region = &regions[round % 2];
        let at = region.start + random.below(region.len() as u64) as usize;
        let mask = 1 << random.below(8);
        bytes[at] ^= mask;
        let snapshot = read_bytes(&bytes).unwrap();
        bytes[at] ^= mask;
        // The first mapping of a hole reaches over it, so a damaged key may too.
        assert!(snapshot.extents.len() + 1 >= whole.extents.len(), "byte {at}");
        for extent in &snapshot.extents {
            assert!(known.contains(&told(&snapshot, extent)), "byte {at}: {extent:?}");
        }
        let pairs = snapshot.extents.windows(2);
        assert!(pairs.into_iter().all(|pair| range(&pair[0]).end <= pair[1].start), "byte {at}");
    }
}

/// A file whose header is another one at each copy of it, as `header` makes it of the first 4,096 bytes.
struct Changing<'a, F: Fn(u64, &mut [u8])> {
    file: &'a [u8],
    /// Gets the number of the copy and the bytes.
    header: F,
    copies: Cell<u64>,
}

impl<F: Fn(u64, &mut [u8])> ReadAt for Changing<'_, F> {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut first = self.file[..4096].to_vec();
        let count = self.file.read_at(offset, buffer)?;
        if offset < 4096 {
            (self.header)(self.copies.replace(self.copies.get() + 1), &mut first);
            buffer[..count].copy_from_slice(&first[offset as usize..][..count]);
        }
        Ok(count)
    }
}

const HOLES: usize = offset_of!(Header, extent_holes);

#[test]
fn a_header_copied_while_the_table_grew_hides_no_extent() {
    let (bytes, whole) = corners();
    // The directory stands before the count of holes.
    let header = |copy, header: &mut [u8]| {
        if copy == 0 {
            header[RegionKind::ExtentKeys.row() + 16..][..8].copy_from_slice(&8u64.to_le_bytes());
        }
    };
    let source = Changing { file: &bytes, header, copies: Cell::new(0) };
    assert_eq!(Snapshot::read(&source).unwrap().extents, whole.extents);
}

#[test]
fn extents_that_never_stand_still_are_read_and_told() {
    let (bytes, whole) = corners();
    let header =
        |copy: u64, header: &mut [u8]| header[HOLES..][..8].copy_from_slice(&copy.to_le_bytes());
    let source = Changing { file: &bytes, header, copies: Cell::new(0) };
    let snapshot = Snapshot::read(&source).unwrap();
    assert_eq!(snapshot.extents, whole.extents);
    assert_eq!(snapshot.defects, [Defect::UnsettledExtents]);
}

#[test]
fn a_profile_read_while_its_program_cuts_holes_has_every_part_that_is_never_unmapped() {
    const MIB: u64 = 1 << 20;
    let mut read_at_work = 0;
    for _ in 0..20 {
        let mut run = Run::new(program("mappings.c")).arg("common");
        let mut child = run.spawn();
        let directory = run.profiles_directory();
        while child.try_wait().unwrap().is_none() {
            let Some(Ok(snapshot)) = profiles_in(&directory).pop().map(|path| read(&path)) else {
                continue;
            };
            let common: Vec<_> =
                snapshot.extents.iter().filter(|extent| extent.bytes != 7 * MIB).collect();
            let (Some(first), Some(last)) = (common.first(), common.last()) else { continue };
            assert!(!snapshot.defects.contains(&Defect::UnsettledExtents));
            assert_eq!(range(last).end - first.start, 512 * MIB);
            let bytes: u64 = common.iter().map(|extent| extent.bytes).sum();
            assert!(bytes >= 512 * MIB - 512 * 129 * 4096);
            read_at_work += (common.len() > 1 && common.len() < 1025) as u32;
        }
        assert!(child.wait().unwrap().success());
    }
    assert!(read_at_work > 20, "{read_at_work}");
}
