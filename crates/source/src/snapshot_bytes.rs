//! A snapshot as the bytes of a profile file: what the reader reads as the same snapshot.

use ramson_format as format;
use ramson_format::{
    ABORT_OFFSET, COMMITTED, END_OFFSET, FAILURE_OFFSET, MAGIC, PAGE_BYTES, REGION_KINDS,
    ROOT_OFFSET, RegionKind, VERSION,
};
use ramson_reader::{
    Allocator, Entry, Fields, Freed, Header, LiveSample, Mapping, Snapshot, Stack,
};
use ramson_reader::{allocator_check, freed_check, live_check, mapping_check};
use std::mem::offset_of;

/// The regions' bytes, in the order of the directory.
#[derive(Default)]
struct Regions([Vec<u8>; format::REGIONS]);

impl Regions {
    fn push(&mut self, kind: RegionKind, bytes: &[u8]) {
        self.0[kind as usize].extend_from_slice(bytes);
    }

    fn entries(&self, kind: RegionKind) -> usize {
        self.0[kind as usize].len() / kind.entry_bytes() as usize
    }
}

/// The file, with this header. Records that were not whole when the snapshot was read are left out.
pub fn snapshot_bytes(snapshot: &Snapshot, new_header: &Header) -> Vec<u8> {
    let mut regions = Regions::default();
    snapshot.stacks.iter().for_each(|stack| push_stack(&mut regions, stack));
    snapshot.live.iter().for_each(|live| push_live(&mut regions, *live, 0));
    snapshot.mappings.iter().for_each(|mapping| push_mapping(&mut regions, mapping));
    for (sample, flags) in snapshot.extents.iter().map(|extent| extent.to_sample()) {
        push_live(&mut regions, sample, flags);
    }
    snapshot.freed.iter().for_each(|freed| push_freed(&mut regions, *freed));
    snapshot.allocators.iter().for_each(|it| push_allocator(&mut regions, it));
    let mut file = header(new_header, &regions);
    for kind in REGION_KINDS {
        let entries = regions.entries(kind) as u64;
        let capacity = if kind == RegionKind::RecentFrees { snapshot.max_freed } else { entries };
        let sizes = kind.entry_bytes() | u64::from(kind.code()) << 32;
        let row = [file.len() as u64, capacity, entries, sizes];
        for (index, mut word) in row.into_iter().enumerate() {
            file.u64(kind.row() + index * 8, &mut word);
        }
        file.extend_from_slice(&regions.0[kind as usize]);
        file.resize(file.len().next_multiple_of(PAGE_BYTES as usize), 0);
    }
    file
}

/// The first page, with an empty directory.
fn header(from: &Header, regions: &Regions) -> Vec<u8> {
    use format::Header as H;
    let mut page = vec![0; PAGE_BYTES as usize];
    page[..MAGIC.len()].copy_from_slice(&MAGIC);
    from.clone().walk(&mut page);
    for (offset, mut number) in [
        (offset_of!(H, version), VERSION as usize),
        (offset_of!(H, stack_count), regions.entries(RegionKind::Stacks)),
        (offset_of!(H, frame_count), regions.entries(RegionKind::Frames)),
        (offset_of!(H, mapping_count), regions.entries(RegionKind::Mappings)),
        (offset_of!(H, string_bytes), regions.entries(RegionKind::Strings)),
    ] {
        page.index(offset, &mut number);
    }
    let latest = [(FAILURE_OFFSET, &from.last_failure), (ABORT_OFFSET, &from.last_abort)];
    for (at, failure) in latest {
        if let Some(mut failure) = failure.as_deref().copied() {
            failure.walk(at as usize, &mut page);
            let check_at = at as usize + offset_of!(format::Failure, check);
            page.u64(check_at, &mut failure.check());
        }
    }
    if let Some(end) = &from.end {
        page.bytes(END_OFFSET as usize, &mut end.to_bytes());
    }
    if let Some(root) = &from.root {
        page.bytes(ROOT_OFFSET as usize, &mut root.to_bytes());
    }
    page
}

fn push_stack(regions: &mut Regions, stack: &Stack) {
    use format::Stack as S;
    let mut entry = vec![0; size_of::<S>()];
    stack.clone().walk(&mut entry);
    entry.u32(offset_of!(S, commit), &mut { COMMITTED });
    entry.index(offset_of!(S, depth), &mut stack.frames.len());
    entry.u64(offset_of!(S, hash), &mut stack.hash());
    entry.u64(offset_of!(S, first_frame), &mut (regions.entries(RegionKind::Frames) as u64));
    regions.push(RegionKind::Stacks, &entry);
    for frame in &stack.frames {
        regions.push(RegionKind::Frames, &frame.0.to_le_bytes());
    }
}

fn push_live(regions: &mut Regions, mut live: LiveSample, mut flags: u32) {
    use format::LiveSample as L;
    let mut entry = vec![0; size_of::<L>()];
    live.walk(&mut entry);
    entry.u32(offset_of!(L, flags), &mut flags);
    let mut check = live_check(live.key(), Entry(&entry));
    entry.u64(offset_of!(L, check), &mut check);
    regions.push(RegionKind::LiveKeys, &live.key().to_le_bytes());
    regions.push(RegionKind::LiveSamples, &entry);
}

fn push_mapping(regions: &mut Regions, mapping: &Mapping) {
    use format::Mapping as M;
    let mut entry = vec![0; size_of::<M>()];
    mapping.clone().walk(&mut entry);
    entry.u32(offset_of!(M, commit), &mut { COMMITTED });
    entry.index(offset_of!(M, path_offset), &mut regions.entries(RegionKind::Strings));
    entry.index(offset_of!(M, path_bytes), &mut mapping.path.len());
    let mut check = mapping_check(Entry(&entry));
    entry.u64(offset_of!(M, check), &mut check);
    regions.push(RegionKind::Mappings, &entry);
    regions.push(RegionKind::Strings, mapping.path.as_bytes());
}

fn push_allocator(regions: &mut Regions, allocator: &Allocator) {
    use format::Allocator as A;
    // Entry n is of family n + 1.
    let bytes = (allocator.family as usize).saturating_sub(1) * size_of::<A>();
    let before = &mut regions.0[RegionKind::Allocators as usize];
    before.resize(bytes.max(before.len()), 0);
    let mut entry = vec![0; size_of::<A>()];
    allocator.clone().walk(&mut entry);
    entry.u32(offset_of!(A, commit), &mut { COMMITTED });
    entry.index(offset_of!(A, path_offset), &mut regions.entries(RegionKind::Strings));
    entry.index(offset_of!(A, path_bytes), &mut allocator.path.len());
    let mut check = allocator_check(Entry(&entry));
    entry.u64(offset_of!(A, check), &mut check);
    regions.push(RegionKind::Allocators, &entry);
    regions.push(RegionKind::Strings, allocator.path.as_bytes());
}

fn push_freed(regions: &mut Regions, mut freed: Freed) {
    let mut entry = vec![0; size_of::<format::Freed>()];
    freed.walk(&mut entry);
    let mut check = freed_check(Entry(&entry));
    entry.u64(offset_of!(format::Freed, check), &mut check);
    regions.push(RegionKind::RecentFrees, &entry);
}

#[cfg(test)]
mod tests;
