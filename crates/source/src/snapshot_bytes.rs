//! A snapshot as the bytes of a profile file: what the reader reads as the same snapshot.

use ramson_format as format;
use ramson_format::{
    ABORT_OFFSET, COMMITTED, END_OFFSET, EPOCH_OPEN, FAILURE_OFFSET, HEALTH, MAGIC, NO_STACK,
    PAGE_BYTES, REGION_KINDS, Region, RegionKind, VERSION, failure_check, freed_check, live_check,
    live_flags, mapping_check, stack_hash,
};
use ramson_reader::{
    Extent, FailedAllocation, Freed, Header, LiveSample, Mapping, Snapshot, Stack,
};
use std::mem::offset_of;

/// Bytes that are filled at given offsets, little-endian.
struct Entry<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Entry<BYTES> {
    fn new() -> Self {
        Self([0; BYTES])
    }

    fn u32(&mut self, offset: usize, value: u32) {
        self.bytes(offset, &value.to_le_bytes());
    }

    fn u64(&mut self, offset: usize, value: u64) {
        self.bytes(offset, &value.to_le_bytes());
    }

    fn float(&mut self, offset: usize, value: f64) {
        self.u64(offset, value.to_bits());
    }

    fn bytes(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// The regions' bytes, in the order of the directory.
#[derive(Default)]
struct Regions([Vec<u8>; format::REGIONS]);

impl Regions {
    fn push(&mut self, kind: RegionKind, bytes: &[u8]) {
        self.0[kind as usize].extend_from_slice(bytes);
    }

    fn entries(&self, kind: RegionKind) -> u64 {
        self.0[kind as usize].len() as u64 / kind.entry_bytes()
    }
}

/// The file. What was not whole when the snapshot was read is left out of it.
pub fn snapshot_bytes(snapshot: &Snapshot) -> Vec<u8> {
    let mut regions = Regions::default();
    snapshot.stacks.iter().for_each(|stack| push_stack(&mut regions, stack));
    snapshot.live.iter().for_each(|live| push_live(&mut regions, live, 0));
    snapshot.mappings.iter().for_each(|mapping| push_mapping(&mut regions, mapping));
    snapshot.extents.iter().for_each(|extent| push_extent(&mut regions, extent));
    snapshot.freed.iter().for_each(|freed| push_freed(&mut regions, freed));
    let mut file = vec![0; PAGE_BYTES as usize];
    let mut page = header(&snapshot.header, &regions);
    for kind in REGION_KINDS {
        let (row, entries) = (kind.row(), regions.entries(kind));
        let capacity = if kind == RegionKind::RecentFrees { snapshot.max_freed } else { entries };
        page.u64(row + offset_of!(Region, offset), file.len() as u64);
        page.u64(row + offset_of!(Region, capacity), capacity);
        page.u64(row + offset_of!(Region, committed), entries);
        page.u32(row + offset_of!(Region, entry_bytes), kind.entry_bytes() as u32);
        page.u32(row + offset_of!(Region, kind), kind.code());
        file.extend_from_slice(&regions.0[kind as usize]);
        file.resize(file.len().next_multiple_of(PAGE_BYTES as usize), 0);
    }
    file[..PAGE_BYTES as usize].copy_from_slice(&page.0);
    file
}

fn header(from: &Header, regions: &Regions) -> Entry<{ PAGE_BYTES as usize }> {
    use format::Header as H;
    let mut page = Entry::new();
    page.bytes(offset_of!(H, magic), &MAGIC);
    for (offset, value) in [
        (offset_of!(H, version), VERSION),
        (offset_of!(H, state), from.state),
        (offset_of!(H, off_reason), from.off_reason),
        (offset_of!(H, pid), from.pid),
        (offset_of!(H, exit_status), from.exit_status as u32),
        (offset_of!(H, flags), from.flags),
        (offset_of!(H, max_overhead_ppm), from.max_overhead_ppm),
        (offset_of!(H, interval_changes), from.interval_changes),
        (offset_of!(H, stack_count), regions.entries(RegionKind::Stacks) as u32),
        (offset_of!(H, mapping_count), regions.entries(RegionKind::Mappings) as u32),
        (offset_of!(H, string_bytes), regions.entries(RegionKind::Strings) as u32),
    ] {
        page.u32(offset, value);
    }
    for (offset, value) in [
        (offset_of!(H, interval_bytes), from.interval_bytes),
        (offset_of!(H, start_monotonic_ns), from.start_monotonic_ns),
        (offset_of!(H, start_realtime_ns), from.start_realtime_ns),
        (offset_of!(H, process_start_ticks), from.process_start_ticks),
        (offset_of!(H, last_monotonic_ns), from.last_monotonic_ns),
        (offset_of!(H, run_id), from.run_id),
        (offset_of!(H, frame_count), regions.entries(RegionKind::Frames)),
        (offset_of!(H, configured_interval_bytes), from.configured_interval_bytes),
        (offset_of!(H, start_cycles), from.start_cycles),
        (offset_of!(H, start_cycles_ns), from.start_cycles_ns),
        (offset_of!(H, last_cycles), from.last_cycles),
        (offset_of!(H, last_cycles_ns), from.last_cycles_ns),
        (offset_of!(H, cpu_ns), from.cpu_ns),
    ] {
        page.u64(offset, value);
    }
    let mut text = |offset: usize, text: &str, room: usize| {
        let bytes = &text.as_bytes()[..text.len().min(room)];
        page.bytes(offset, bytes);
        bytes.len() as u32
    };
    text(offset_of!(H, comm), &from.comm, 16);
    let exe = text(offset_of!(H, exe), &from.exe, format::EXE_BYTES);
    let command = text(offset_of!(H, command), &from.command.join("\0"), format::COMMAND_BYTES);
    page.u32(offset_of!(H, exe_bytes), exe);
    page.u32(offset_of!(H, command_bytes), command);
    for (&(kind, _), &value) in HEALTH.iter().zip(&from.health) {
        page.u64(offset_of!(H, health) + kind as usize * 8, value);
    }
    set_failures(&mut page, from);
    if let Some(end) = &from.end {
        page.bytes(END_OFFSET as usize, &end.to_bytes());
    }
    page
}

fn set_failures(page: &mut Entry<{ PAGE_BYTES as usize }>, from: &Header) {
    for (at, count, latest) in [
        (FAILURE_OFFSET, from.failures, &from.last_failure),
        (ABORT_OFFSET, from.aborts, &from.last_abort),
    ] {
        page.u64(at as usize, count);
        if let Some(failure) = latest {
            set_failure(page, at as usize, failure);
        }
    }
}

fn set_failure(page: &mut Entry<{ PAGE_BYTES as usize }>, at: usize, failure: &FailedAllocation) {
    use format::Failure as F;
    let stack = failure.stack as u32;
    let check = failure_check(failure.size, failure.monotonic_ns, stack, failure.tid);
    page.u64(at + offset_of!(F, size), failure.size);
    page.u64(at + offset_of!(F, monotonic_ns), failure.monotonic_ns);
    page.u32(at + offset_of!(F, stack), stack);
    page.u32(at + offset_of!(F, tid), failure.tid);
    page.u64(at + offset_of!(F, check), check);
}

fn push_stack(regions: &mut Regions, stack: &Stack) {
    use format::Stack as S;
    let mut entry = Entry::<{ size_of::<S>() }>::new();
    let first_frame = regions.entries(RegionKind::Frames);
    entry.u32(offset_of!(S, commit), COMMITTED);
    entry.u32(offset_of!(S, depth), stack.frames.len() as u32);
    entry.u32(offset_of!(S, epoch), stack.epoch);
    entry.u32(offset_of!(S, flags), stack.flags);
    entry.u64(
        offset_of!(S, hash),
        stack_hash(stack.kind(), stack.epoch, stack.frames.iter().copied()),
    );
    entry.u64(offset_of!(S, first_frame), first_frame);
    entry.u64(offset_of!(S, sampled_alloc_objects), stack.sampled_alloc_objects);
    entry.u64(offset_of!(S, sampled_alloc_bytes), stack.sampled_alloc_bytes);
    entry.u64(offset_of!(S, sampled_freed_objects), stack.sampled_freed_objects);
    entry.u64(offset_of!(S, sampled_freed_bytes), stack.sampled_freed_bytes);
    let unsampled = stack.alloc_objects - stack.sampled_alloc_objects as f64;
    entry.float(offset_of!(S, unsampled_alloc_objects), unsampled);
    let unsampled = stack.alloc_space - stack.sampled_alloc_bytes as f64;
    entry.float(offset_of!(S, unsampled_alloc_space), unsampled);
    let unsampled = stack.freed_objects - stack.sampled_freed_objects as f64;
    entry.float(offset_of!(S, unsampled_freed_objects), unsampled);
    let unsampled = stack.freed_space - stack.sampled_freed_bytes as f64;
    entry.float(offset_of!(S, unsampled_freed_space), unsampled);
    entry.float(offset_of!(S, alloc_objects_variance), stack.alloc_objects_variance);
    entry.float(offset_of!(S, alloc_space_variance), stack.alloc_space_variance);
    entry.u64(offset_of!(S, first_monotonic_ns), stack.first_monotonic_ns);
    for (bucket, &count) in stack.lifetimes.iter().enumerate() {
        entry.u32(offset_of!(S, lifetimes) + bucket * 4, u32::try_from(count).unwrap_or(u32::MAX));
    }
    regions.push(RegionKind::Stacks, &entry.0);
    for frame in &stack.frames {
        regions.push(RegionKind::Frames, &frame.0.to_le_bytes());
    }
}

fn push_live(regions: &mut Regions, live: &LiveSample, flags: u32) {
    use format::LiveSample as L;
    let mut entry = Entry::<{ size_of::<L>() }>::new();
    let weight = live.inverse_probability.to_bits();
    let stack = live.stack as u32;
    entry.u64(offset_of!(L, size), live.size);
    entry.u64(offset_of!(L, inverse_probability), weight);
    entry.u64(offset_of!(L, monotonic_ns), live.monotonic_ns);
    entry.u32(offset_of!(L, stack), stack);
    entry.u32(offset_of!(L, tid), live.tid);
    entry.u32(offset_of!(L, flags), flags);
    let check = live_check(&[
        live.address,
        live.size,
        weight,
        live.monotonic_ns,
        u64::from(stack) | u64::from(live.tid) << 32,
        u64::from(flags),
    ]);
    entry.u64(offset_of!(L, check), check);
    regions.push(RegionKind::LiveKeys, &live.address.to_le_bytes());
    regions.push(RegionKind::LiveSamples, &entry.0);
}

fn push_extent(regions: &mut Regions, extent: &Extent) {
    let flags = live_flags::EXTENT
        | if extent.is_reserved { live_flags::RESERVED } else { 0 }
        | if extent.is_shared { live_flags::SHARED } else { 0 };
    let live = LiveSample {
        address: extent.start,
        size: extent.bytes,
        inverse_probability: 1.0,
        monotonic_ns: extent.monotonic_ns,
        stack: extent.stack,
        tid: extent.tid,
    };
    push_live(regions, &live, flags);
}

fn push_mapping(regions: &mut Regions, mapping: &Mapping) {
    use format::Mapping as M;
    let mut entry = Entry::<{ size_of::<M>() }>::new();
    let path_offset = regions.entries(RegionKind::Strings) as u32;
    let (path_bytes, epoch_from) = (mapping.path.len() as u32, mapping.epochs.start);
    let id_bytes = mapping.build_id.len().min(32);
    let mut id = [0; 32];
    id[..id_bytes].copy_from_slice(&mapping.build_id[..id_bytes]);
    let word = |index: usize| {
        let bytes = id[index * 8..index * 8 + 8].iter().rev();
        bytes.fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    let check = mapping_check(&[
        mapping.start,
        mapping.end,
        mapping.file_offset,
        mapping.bias,
        u64::from(epoch_from),
        u64::from(path_offset) | u64::from(path_bytes) << 32,
        id_bytes as u64,
        word(0),
        word(1),
        word(2),
        word(3),
    ]);
    let is_open = mapping.epochs.end == u32::MAX;
    entry.u32(offset_of!(M, commit), COMMITTED);
    entry.u32(offset_of!(M, build_id_bytes), id_bytes as u32);
    entry.u64(offset_of!(M, start), mapping.start);
    entry.u64(offset_of!(M, end), mapping.end);
    entry.u64(offset_of!(M, file_offset), mapping.file_offset);
    entry.u64(offset_of!(M, bias), mapping.bias);
    entry.u32(offset_of!(M, epoch_from), epoch_from);
    entry.u32(offset_of!(M, epoch_to), if is_open { EPOCH_OPEN } else { mapping.epochs.end });
    entry.u32(offset_of!(M, path_offset), path_offset);
    entry.u32(offset_of!(M, path_bytes), path_bytes);
    entry.bytes(offset_of!(M, build_id), &id);
    entry.u64(offset_of!(M, check), check);
    regions.push(RegionKind::Mappings, &entry.0);
    regions.push(RegionKind::Strings, mapping.path.as_bytes());
}

fn push_freed(regions: &mut Regions, freed: &Freed) {
    use format::Freed as F;
    let mut entry = Entry::<{ size_of::<F>() }>::new();
    let (alloc_stack, free_stack) =
        (freed.alloc_stack as u32, freed.free_stack.map_or(NO_STACK, |stack| stack as u32));
    let check = freed_check(&[
        freed.number,
        freed.address,
        freed.size,
        freed.alloc_monotonic_ns,
        freed.free_monotonic_ns,
        u64::from(alloc_stack) | u64::from(free_stack) << 32,
        u64::from(freed.alloc_tid) | u64::from(freed.free_tid) << 32,
    ]);
    entry.u64(offset_of!(F, number), freed.number);
    entry.u64(offset_of!(F, address), freed.address);
    entry.u64(offset_of!(F, size), freed.size);
    entry.u64(offset_of!(F, alloc_monotonic_ns), freed.alloc_monotonic_ns);
    entry.u64(offset_of!(F, free_monotonic_ns), freed.free_monotonic_ns);
    entry.u32(offset_of!(F, alloc_stack), alloc_stack);
    entry.u32(offset_of!(F, free_stack), free_stack);
    entry.u32(offset_of!(F, alloc_tid), freed.alloc_tid);
    entry.u32(offset_of!(F, free_tid), freed.free_tid);
    entry.u64(offset_of!(F, check), check);
    regions.push(RegionKind::RecentFrees, &entry.0);
}

#[cfg(test)]
mod tests;
