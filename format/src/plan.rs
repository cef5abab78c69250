//! How a new file is divided among its regions.

use crate::{
    LIVE_FIRST_SEGMENT, LiveSample, MOST_ALLOCATORS, PAGE_BYTES, REGION_KINDS, REGIONS, RegionKind,
    max_recent_frees,
};

/// Place of a region in a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPlan {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Entries.
    pub capacity: u64,
}

/// Divides a file of `file_bytes` among the regions, in the order of `REGION_KINDS`: 23/64 for live
/// samples with their keys, 1/4 for stacks, 1/4 for frames, up to 1/32 each for mappings and
/// strings, up to 1/64 for recent frees, and two pages for allocators.
pub fn plan(file_bytes: u64) -> [RegionPlan; REGIONS] {
    let live_slots = live_slots_within(file_bytes / 64 * 23);
    let bytes_of = |kind: RegionKind| match kind {
        RegionKind::Stacks | RegionKind::Frames => file_bytes / 4,
        RegionKind::LiveKeys => live_slots * 8,
        RegionKind::LiveSamples => live_slots * size_of::<LiveSample>() as u64,
        RegionKind::Mappings | RegionKind::Strings => (file_bytes / 32).min(1 << 20),
        RegionKind::RecentFrees => max_recent_frees(file_bytes) * kind.entry_bytes(),
        RegionKind::Allocators => MOST_ALLOCATORS as u64 * kind.entry_bytes(),
    };
    let mut offset = PAGE_BYTES;
    REGION_KINDS.map(|kind| {
        let bytes = bytes_of(kind).next_multiple_of(PAGE_BYTES);
        let capacity = match kind {
            RegionKind::LiveKeys | RegionKind::LiveSamples => live_slots,
            RegionKind::RecentFrees => max_recent_frees(file_bytes),
            RegionKind::Stacks => (bytes / kind.entry_bytes()).min(1 << 20),
            _ => (bytes / kind.entry_bytes()).min(u32::MAX as u64),
        };
        let planned = RegionPlan { offset, capacity };
        offset += bytes;
        planned
    })
}

/// Slots of as many whole live segments as fit in `bytes`.
fn live_slots_within(bytes: u64) -> u64 {
    let slot_bytes = 8 + size_of::<LiveSample>() as u64;
    let mut slots = LIVE_FIRST_SEGMENT;
    while (slots * 2 + LIVE_FIRST_SEGMENT) * slot_bytes <= bytes {
        slots = slots * 2 + LIVE_FIRST_SEGMENT;
    }
    slots
}
