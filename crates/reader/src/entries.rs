//! Single records: each is taken whole and checked, or not at all.

use crate::bytes::Entry;
use crate::snapshot::{Extent, FailedAllocation, Freed, LiveSample, Mapping, Stack};
use ramson_format as format;
use ramson_format::{
    COMMITTED, EPOCH_OPEN, LIFETIME_BUCKETS, LookupAddress, MAX_DEPTH, NO_STACK, failure_check,
    freed_check, live_check, live_flags, mapping_check, stack_hash,
};
use std::mem::offset_of;

pub fn mapping(entry: Entry, strings: &[u8]) -> Option<Mapping> {
    use format::Mapping as M;
    if entry.u32(offset_of!(M, commit)) != COMMITTED {
        return None;
    }
    let build_id_bytes = entry.u32(offset_of!(M, build_id_bytes));
    let epoch_from = entry.u32(offset_of!(M, epoch_from));
    let path_offset = entry.u32(offset_of!(M, path_offset));
    let path_bytes = entry.u32(offset_of!(M, path_bytes));
    let start = entry.u64(offset_of!(M, start));
    let end = entry.u64(offset_of!(M, end));
    let file_offset = entry.u64(offset_of!(M, file_offset));
    let bias = entry.u64(offset_of!(M, bias));
    let id_at = offset_of!(M, build_id);
    let check = mapping_check(&[
        start,
        end,
        file_offset,
        bias,
        epoch_from as u64,
        path_offset as u64 | (path_bytes as u64) << 32,
        build_id_bytes as u64,
        entry.u64(id_at),
        entry.u64(id_at + 8),
        entry.u64(id_at + 16),
        entry.u64(id_at + 24),
    ]);
    if check != entry.u64(offset_of!(M, check)) || build_id_bytes > 32 {
        return None;
    }
    let path = Entry(strings).slice(path_offset as usize, path_bytes as usize);
    let epoch_to = entry.u32(offset_of!(M, epoch_to));
    Some(Mapping {
        start,
        end,
        file_offset,
        bias,
        epochs: epoch_from..if epoch_to == EPOCH_OPEN { u32::MAX } else { epoch_to },
        path: String::from_utf8_lossy(path).into_owned(),
        build_id: entry.slice(id_at, build_id_bytes as usize).to_vec(),
    })
}

pub fn counters(entry: Entry) -> Stack {
    use format::Stack as S;
    let mut lifetimes = [0; LIFETIME_BUCKETS];
    for (bucket, count) in lifetimes.iter_mut().enumerate() {
        *count = entry.u32(offset_of!(S, lifetimes) + bucket * 4) as u64;
    }
    let sampled_alloc_objects = entry.u64(offset_of!(S, sampled_alloc_objects));
    let sampled_alloc_bytes = entry.u64(offset_of!(S, sampled_alloc_bytes));
    let sampled_freed_objects = entry.u64(offset_of!(S, sampled_freed_objects));
    let sampled_freed_bytes = entry.u64(offset_of!(S, sampled_freed_bytes));
    Stack {
        frames: Vec::new(),
        epoch: entry.u32(offset_of!(S, epoch)),
        flags: entry.u32(offset_of!(S, flags)),
        sampled_alloc_objects,
        sampled_alloc_bytes,
        sampled_freed_objects,
        sampled_freed_bytes,
        alloc_objects: sampled_alloc_objects as f64
            + entry.float(offset_of!(S, unsampled_alloc_objects)),
        alloc_space: sampled_alloc_bytes as f64 + entry.float(offset_of!(S, unsampled_alloc_space)),
        freed_objects: sampled_freed_objects as f64
            + entry.float(offset_of!(S, unsampled_freed_objects)),
        freed_space: sampled_freed_bytes as f64 + entry.float(offset_of!(S, unsampled_freed_space)),
        alloc_objects_variance: entry.float(offset_of!(S, alloc_objects_variance)),
        alloc_space_variance: entry.float(offset_of!(S, alloc_space_variance)),
        first_monotonic_ns: entry.u64(offset_of!(S, first_monotonic_ns)),
        lifetimes,
    }
}

pub fn stack(entry: Entry, frames: &[u8]) -> Option<Stack> {
    use format::Stack as S;
    let commit = entry.u32(offset_of!(S, commit));
    let depth = entry.u32(offset_of!(S, depth)) as usize;
    let first_frame = entry.u64(offset_of!(S, first_frame));
    if commit != COMMITTED || depth == 0 || depth > MAX_DEPTH {
        return None;
    }
    let start = usize::try_from(first_frame.checked_mul(8)?).ok()?;
    let end = start.checked_add(depth * 8)?;
    let words = frames.get(start..end)?.chunks_exact(8);
    let addresses: Vec<LookupAddress> =
        words.map(|word| LookupAddress(Entry(word).u64(0))).collect();
    let mut stack = counters(entry);
    if stack_hash(stack.kind(), stack.epoch, addresses.iter().copied())
        != entry.u64(offset_of!(S, hash))
    {
        return None;
    }
    stack.frames = addresses;
    Some(stack)
}

pub fn add_counters(to: &mut Stack, from: &Stack) {
    to.flags |= from.flags;
    to.sampled_alloc_objects = to.sampled_alloc_objects.saturating_add(from.sampled_alloc_objects);
    to.sampled_alloc_bytes = to.sampled_alloc_bytes.saturating_add(from.sampled_alloc_bytes);
    to.sampled_freed_objects = to.sampled_freed_objects.saturating_add(from.sampled_freed_objects);
    to.sampled_freed_bytes = to.sampled_freed_bytes.saturating_add(from.sampled_freed_bytes);
    to.alloc_objects += from.alloc_objects;
    to.alloc_space += from.alloc_space;
    to.freed_objects += from.freed_objects;
    to.freed_space += from.freed_space;
    to.alloc_objects_variance += from.alloc_objects_variance;
    to.alloc_space_variance += from.alloc_space_variance;
    to.first_monotonic_ns = to.first_monotonic_ns.min(from.first_monotonic_ns);
    to.lifetimes.iter_mut().zip(from.lifetimes).for_each(|(to, from)| *to += from);
}

/// A record of the live table.
pub enum Live {
    Sample(LiveSample),
    /// With what orders extents in time: of two that overlap, the later one was mapped over the
    /// other.
    Extent(Extent, (u64, u32)),
}

impl Live {
    pub fn stack(&mut self) -> &mut usize {
        match self {
            Self::Sample(sample) => &mut sample.stack,
            Self::Extent(extent, _) => &mut extent.stack,
        }
    }
}

pub fn live(address: u64, entry: Entry) -> Option<Live> {
    use format::LiveSample as L;
    let size = entry.u64(offset_of!(L, size));
    let probability_bits = entry.u64(offset_of!(L, inverse_probability));
    let monotonic_ns = entry.u64(offset_of!(L, monotonic_ns));
    let flags = entry.u32(offset_of!(L, flags));
    let check = live_check(&[
        address,
        size,
        probability_bits,
        monotonic_ns,
        entry.u64(offset_of!(L, stack)),
        entry.u64(offset_of!(L, flags)),
    ]);
    let inverse_probability = f64::from_bits(probability_bits);
    let is_valid = check == entry.u64(offset_of!(L, check))
        && inverse_probability.is_finite()
        && inverse_probability >= 1.0
        && address.checked_add(size).is_some();
    let stack = entry.u32(offset_of!(L, stack)) as usize;
    let tid = entry.u32(offset_of!(L, tid));
    let sample = LiveSample { address, size, inverse_probability, monotonic_ns, stack, tid };
    is_valid.then_some(match flags & live_flags::EXTENT {
        0 => Live::Sample(sample),
        _ => Live::Extent(
            Extent {
                start: address,
                bytes: size,
                monotonic_ns,
                stack,
                tid,
                is_reserved: flags & live_flags::RESERVED != 0,
                is_shared: flags & live_flags::SHARED != 0,
            },
            (monotonic_ns, entry.u32(offset_of!(L, number))),
        ),
    })
}

pub fn freed(entry: Entry) -> Option<Freed> {
    use format::Freed as F;
    let number = entry.u64(offset_of!(F, number));
    let address = entry.u64(offset_of!(F, address));
    let size = entry.u64(offset_of!(F, size));
    let alloc_monotonic_ns = entry.u64(offset_of!(F, alloc_monotonic_ns));
    let free_monotonic_ns = entry.u64(offset_of!(F, free_monotonic_ns));
    let check = freed_check(&[
        number,
        address,
        size,
        alloc_monotonic_ns,
        free_monotonic_ns,
        entry.u64(offset_of!(F, alloc_stack)),
        entry.u64(offset_of!(F, alloc_tid)),
    ]);
    let free_stack = entry.u32(offset_of!(F, free_stack));
    let is_valid = number != 0 && check == entry.u64(offset_of!(F, check));
    is_valid.then_some(Freed {
        number,
        address,
        size,
        alloc_monotonic_ns,
        free_monotonic_ns,
        alloc_stack: entry.u32(offset_of!(F, alloc_stack)) as usize,
        free_stack: (free_stack != NO_STACK).then_some(free_stack as usize),
        alloc_tid: entry.u32(offset_of!(F, alloc_tid)),
        free_tid: entry.u32(offset_of!(F, free_tid)),
    })
}

/// The one at this offset of a header; `stack` is still the number in the file.
pub fn failure(header: Entry, offset: u64) -> Option<FailedAllocation> {
    use format::Failure as F;
    let at = offset as usize;
    let size = header.u64(at + offset_of!(F, size));
    let monotonic_ns = header.u64(at + offset_of!(F, monotonic_ns));
    let stack = header.u32(at + offset_of!(F, stack));
    let tid = header.u32(at + offset_of!(F, tid));
    let check = header.u64(at + offset_of!(F, check));
    (check == failure_check(size, monotonic_ns, stack, tid)).then_some(FailedAllocation {
        size,
        monotonic_ns,
        stack: stack as usize,
        tid,
    })
}
