//! Single records. One walk over the fields of each reads or writes them; a record is taken whole and checked, or not at all.

use crate::fields::{Entry, Fields};
use crate::region::Region;
use crate::snapshot::{
    Allocator, Extent, FailedAllocation, Freed, Header, LiveSample, Mapping, Stack,
};
use ramson_format as format;
use ramson_format::{
    ABORT_OFFSET, COMMITTED, FAILURE_OFFSET, HEALTH, LookupAddress, MAX_DEPTH, MEMBER_STATES,
    MOST_ALLOCATORS, NO_STACK, failure_check, live_flags, stack_hash,
};
use std::mem::offset_of;

/// Longer than the kernel takes a path (PATH_MAX).
const MAX_PATH_BYTES: usize = 4096;
/// Room for a build ID.
const BUILD_ID_BYTES: usize = size_of::<[u64; 4]>();

impl Header {
    /// Walks the fields that stand in the header as they are: all except the end, the failures and the committed bytes.
    pub fn walk(&mut self, page: &mut impl Fields) {
        use format::Header as H;
        let mut exit_status = self.exit_status as u32;
        for (offset, field) in [
            (offset_of!(H, state), &mut self.state),
            (offset_of!(H, off_reason), &mut self.off_reason),
            (offset_of!(H, pid), &mut self.pid),
            (offset_of!(H, exit_status), &mut exit_status),
            (offset_of!(H, flags), &mut self.flags),
            (offset_of!(H, max_overhead_ppm), &mut self.max_overhead_ppm),
            (offset_of!(H, interval_changes), &mut self.interval_changes),
        ] {
            page.u32(offset, field);
        }
        self.exit_status = exit_status as i32;
        for (offset, field) in [
            (offset_of!(H, interval_bytes), &mut self.interval_bytes),
            (offset_of!(H, start_monotonic_ns), &mut self.start_monotonic_ns),
            (offset_of!(H, start_realtime_ns), &mut self.start_realtime_ns),
            (offset_of!(H, process_start_ticks), &mut self.process_start_ticks),
            (offset_of!(H, last_monotonic_ns), &mut self.last_monotonic_ns),
            (offset_of!(H, run_id), &mut self.run_id),
            (offset_of!(H, configured_interval_bytes), &mut self.configured_interval_bytes),
            (offset_of!(H, until_monotonic_ns), &mut self.until_monotonic_ns),
            (offset_of!(H, attached_monotonic_ns), &mut self.attached_monotonic_ns),
            (offset_of!(H, interval_orders), &mut self.interval_orders),
            (offset_of!(H, unsampled_ns), &mut self.unsampled_ns),
            (offset_of!(H, resumed_monotonic_ns), &mut self.resumed_monotonic_ns),
            (offset_of!(H, start_cycles), &mut self.start_cycles),
            (offset_of!(H, start_cycles_ns), &mut self.start_cycles_ns),
            (offset_of!(H, last_cycles), &mut self.last_cycles),
            (offset_of!(H, last_cycles_ns), &mut self.last_cycles_ns),
            (offset_of!(H, cpu_ns), &mut self.cpu_ns),
            (offset_of!(H, processes), &mut self.processes),
            (offset_of!(H, inside), &mut self.inside),
            (FAILURE_OFFSET as usize, &mut self.failures),
            (ABORT_OFFSET as usize, &mut self.aborts),
        ] {
            page.u64(offset, field);
        }
        self.health.resize(HEALTH.len(), 0);
        for ((kind, _), count) in HEALTH.into_iter().zip(&mut self.health) {
            page.u64(offset_of!(H, health) + kind as usize * 8, count);
        }
        let mut comm = [0; 16];
        let used = self.comm.len().min(comm.len());
        comm[..used].copy_from_slice(&self.comm.as_bytes()[..used]);
        page.bytes(offset_of!(H, comm), &mut comm);
        let comm = comm.split(|&byte| byte == 0).next().unwrap_or_default();
        self.comm = String::from_utf8_lossy(comm).into_owned();
        page.text(offset_of!(H, exe_bytes), offset_of!(H, exe), format::EXE_BYTES, &mut self.exe);
        let mut command = self.joined_command();
        let length = offset_of!(H, command_bytes);
        let at = offset_of!(H, command);
        page.text(length, at, format::COMMAND_BYTES, &mut command);
        self.set_command(&command);
    }

    /// Words, each ended by a zero byte, the last one perhaps by the end. If a program wrote a shorter title over its
    /// arguments, more zeros follow.
    pub fn set_command(&mut self, joined: &str) {
        let words = joined.trim_end_matches('\0');
        // One ends the last word, two an empty one behind it.
        let has_empty = joined.len() == words.len() + 2 && !words.is_empty();
        let words = if has_empty { &joined[..words.len() + 1] } else { words };
        self.command = match words {
            "" => Vec::new(),
            _ => words.split('\0').map(str::to_owned).collect(),
        };
    }

    /// As `set_command` takes it.
    pub fn joined_command(&self) -> String {
        let is_last_empty = self.command.last().is_some_and(String::is_empty);
        self.command.join("\0") + if is_last_empty { "\0" } else { "" }
    }
}

impl Mapping {
    /// All except the path, the commit and the check.
    pub fn walk(&mut self, entry: &mut impl Fields) {
        use format::Mapping as M;
        entry.u64(offset_of!(M, start), &mut self.start);
        entry.u64(offset_of!(M, end), &mut self.end);
        entry.u64(offset_of!(M, file_offset), &mut self.file_offset);
        entry.u64(offset_of!(M, bias), &mut self.bias);
        entry.u32(offset_of!(M, epoch_from), &mut self.epochs.start);
        entry.u32(offset_of!(M, epoch_to), &mut self.epochs.end);
        let length = offset_of!(M, build_id_bytes);
        let at = offset_of!(M, build_id);
        entry.counted(length, at, BUILD_ID_BYTES, &mut self.build_id);
    }
}

/// Computes the check that this entry must contain.
pub fn mapping_check(entry: Entry) -> u64 {
    use format::Mapping as M;
    let id = offset_of!(M, build_id);
    format::mapping_check(&[
        entry.u64(offset_of!(M, start)),
        entry.u64(offset_of!(M, end)),
        entry.u64(offset_of!(M, file_offset)),
        entry.u64(offset_of!(M, bias)),
        entry.u32(offset_of!(M, epoch_from)).into(),
        entry.u64(offset_of!(M, path_offset)),
        entry.u32(offset_of!(M, build_id_bytes)).into(),
        entry.u64(id),
        entry.u64(id + 8),
        entry.u64(id + 16),
        entry.u64(id + 24),
    ])
}

pub fn mapping(mut entry: Entry, strings: &Region) -> Option<Mapping> {
    use format::Mapping as M;
    let path = [offset_of!(M, path_offset), offset_of!(M, path_bytes)];
    let [path_offset, path_bytes] = path.map(|at| entry.u32(at));
    let is_whole = entry.u32(offset_of!(M, commit)) == COMMITTED
        && entry.u32(offset_of!(M, build_id_bytes)) as usize <= BUILD_ID_BYTES
        && path_bytes as usize <= MAX_PATH_BYTES
        && entry.u64(offset_of!(M, check)) == mapping_check(entry);
    is_whole.then(|| {
        let mut mapping = Mapping::default();
        mapping.walk(&mut entry);
        let path = strings.slice(path_offset.into(), path_bytes as usize);
        mapping.path = String::from_utf8_lossy(path.unwrap_or_default()).into_owned();
        mapping
    })
}

/// Whether an allocator has been begun in this entry.
pub fn is_begun(entry: Entry) -> bool {
    entry.u32(offset_of!(format::Allocator, commit)) != 0
}

impl Allocator {
    /// All except the family, which is the entry's number, and the path.
    pub fn walk(&mut self, entry: &mut impl Fields) {
        use format::Allocator as A;
        entry.u32(offset_of!(A, kind), &mut self.kind);
        entry.u64(offset_of!(A, object), &mut self.object);
        entry.u64(offset_of!(A, samples), &mut self.samples);
        entry.u64(offset_of!(A, missed_frees), &mut self.missed_frees);
        self.states.resize(MEMBER_STATES, 0);
        entry.bytes(offset_of!(A, states), &mut self.states);
    }
}

/// Computes the check that an allocator's entry must contain.
pub fn allocator_check(mut entry: Entry) -> u64 {
    use format::Allocator as A;
    let mut states = [0; MEMBER_STATES];
    entry.bytes(offset_of!(A, states), &mut states);
    let [kind, object, path] = [
        entry.u32(offset_of!(A, kind)).into(),
        entry.u64(offset_of!(A, object)),
        entry.u64(offset_of!(A, path_offset)),
    ];
    format::allocator_check(kind as u32, object, path, &states)
}

/// The allocator in the entry of this number.
pub fn allocator(number: usize, mut entry: Entry, strings: &Region) -> Option<Allocator> {
    use format::Allocator as A;
    let path = [offset_of!(A, path_offset), offset_of!(A, path_bytes)];
    let [path_offset, path_bytes] = path.map(|at| entry.u32(at));
    let is_whole = entry.u32(offset_of!(A, commit)) == COMMITTED
        && number < MOST_ALLOCATORS
        && path_bytes as usize <= MAX_PATH_BYTES
        && entry.u64(offset_of!(A, check)) == allocator_check(entry);
    is_whole.then(|| {
        let family = format::PRELOADED_FAMILY + 1 + number as u8;
        let mut allocator = Allocator { family, ..Allocator::default() };
        allocator.walk(&mut entry);
        let path = strings.slice(path_offset.into(), path_bytes as usize);
        allocator.path = String::from_utf8_lossy(path.unwrap_or_default()).into_owned();
        allocator
    })
}

impl Stack {
    /// Its counters in the order of the file: those of samples, and the weighted ones.
    pub fn counters_mut(&mut self) -> ([&mut u64; 4], [&mut f64; 6]) {
        let sampled = [
            &mut self.sampled_alloc_objects,
            &mut self.sampled_alloc_bytes,
            &mut self.sampled_freed_objects,
            &mut self.sampled_freed_bytes,
        ];
        let weighted = [
            &mut self.alloc_objects,
            &mut self.alloc_space,
            &mut self.freed_objects,
            &mut self.freed_space,
            &mut self.alloc_objects_variance,
            &mut self.alloc_space_variance,
        ];
        (sampled, weighted)
    }

    /// All except the commit, the frames and the hash.
    pub fn walk(&mut self, entry: &mut impl Fields) {
        use format::Stack as S;
        entry.u32(offset_of!(S, epoch), &mut self.epoch);
        entry.u32(offset_of!(S, flags), &mut self.flags);
        let (sampled, weighted) = self.counters_mut();
        // A variance has no part that is not weighted.
        let mut counted = [0.0; 6];
        for (index, count) in sampled.into_iter().enumerate() {
            entry.u64(offset_of!(S, sampled_alloc_objects) + index * 8, count);
            counted[index] = *count as f64;
        }
        for (index, (value, counted)) in weighted.into_iter().zip(counted).enumerate() {
            let mut rest = *value - counted;
            entry.float(offset_of!(S, unsampled_alloc_objects) + index * 8, &mut rest);
            *value = counted + rest;
        }
        entry.u64(offset_of!(S, first_monotonic_ns), &mut self.first_monotonic_ns);
        for (bucket, count) in self.lifetimes.iter_mut().enumerate() {
            let mut short = u32::try_from(*count).unwrap_or(u32::MAX);
            entry.u32(offset_of!(S, lifetimes) + bucket * 4, &mut short);
            *count = short.into();
        }
    }

    /// Adds the counters of another entry of the same stack.
    pub fn add_counters(&mut self, mut other: Self) {
        self.flags |= other.flags;
        self.first_monotonic_ns = self.first_monotonic_ns.min(other.first_monotonic_ns);
        let lifetimes = self.lifetimes.iter_mut().zip(other.lifetimes);
        lifetimes.for_each(|(to, from)| *to = to.saturating_add(from));
        let (sampled, weighted) = self.counters_mut();
        let (more_sampled, more_weighted) = other.counters_mut();
        for (to, from) in sampled.into_iter().zip(more_sampled) {
            *to = to.saturating_add(*from);
        }
        weighted.into_iter().zip(more_weighted).for_each(|(to, from)| *to += *from);
    }

    /// Computes the hash that the entry of this stack must contain.
    pub fn hash(&self) -> u64 {
        stack_hash(self.kind(), self.epoch, self.frames.iter().copied())
    }
}

/// Without frames.
pub fn counters(mut entry: Entry) -> Stack {
    let mut stack = Stack::default();
    stack.walk(&mut entry);
    stack
}

pub fn stack(entry: Entry, frames: &Region) -> Option<Stack> {
    use format::Stack as S;
    let depth = entry.u32(offset_of!(S, depth)) as usize;
    if entry.u32(offset_of!(S, commit)) != COMMITTED || depth == 0 || depth > MAX_DEPTH {
        return None;
    }
    let words = frames.slice(entry.u64(offset_of!(S, first_frame)), depth)?.chunks_exact(8);
    let frames = words.map(|word| LookupAddress(Entry(word).u64(0))).collect();
    let stack = Stack { frames, ..counters(entry) };
    (stack.hash() == entry.u64(offset_of!(S, hash))).then_some(stack)
}

impl LiveSample {
    /// Its key in the live table.
    pub fn key(&self) -> u64 {
        format::live_key(self.address, self.family)
    }

    /// Whether the whole block has addresses that a key has room for.
    pub fn fits_in_key(&self) -> bool {
        let end = self.address.checked_add(self.size);
        end.is_some_and(|end| format::family_of(end) == 0)
            && format::family_of(self.key()) == self.family
    }

    /// All except the address and the family, which are the key, the flags and the check.
    pub fn walk(&mut self, entry: &mut impl Fields) {
        use format::LiveSample as L;
        entry.u64(offset_of!(L, size), &mut self.size);
        entry.float(offset_of!(L, inverse_probability), &mut self.inverse_probability);
        entry.u64(offset_of!(L, monotonic_ns), &mut self.monotonic_ns);
        entry.index(offset_of!(L, stack), &mut self.stack);
        entry.u32(offset_of!(L, tid), &mut self.tid);
    }
}

/// Computes the check that the entry with this key must contain.
pub fn live_check(key: u64, entry: Entry) -> u64 {
    use format::LiveSample as L;
    format::live_check(&[
        key,
        entry.u64(offset_of!(L, size)),
        entry.u64(offset_of!(L, inverse_probability)),
        entry.u64(offset_of!(L, monotonic_ns)),
        entry.u64(offset_of!(L, stack)),
        entry.u64(offset_of!(L, flags)),
    ])
}

/// A record of the live table: the sample, or the extent as if it were one, its flags, and its number.
pub fn live(key: u64, mut entry: Entry) -> Option<(LiveSample, u32, u32)> {
    use format::LiveSample as L;
    let (address, family) = (format::address_of(key), format::family_of(key));
    let mut sample = LiveSample { address, family, ..LiveSample::default() };
    sample.walk(&mut entry);
    let is_whole = entry.u64(offset_of!(L, check)) == live_check(key, entry)
        && sample.inverse_probability >= 1.0
        && sample.fits_in_key();
    let [flags, number] = [offset_of!(L, flags), offset_of!(L, number)].map(|at| entry.u32(at));
    is_whole.then_some((sample, flags, number))
}

impl Extent {
    /// Extent that is recorded as a sample with these flags of the live table.
    pub fn of(sample: &LiveSample, flags: u32) -> Self {
        Self {
            start: sample.address,
            bytes: sample.size,
            monotonic_ns: sample.monotonic_ns,
            stack: sample.stack,
            tid: sample.tid,
            is_reserved: flags & live_flags::RESERVED != 0,
            is_shared: flags & live_flags::SHARED != 0,
        }
    }

    /// The opposite.
    pub fn to_sample(&self) -> (LiveSample, u32) {
        let sample = LiveSample {
            address: self.start,
            size: self.bytes,
            inverse_probability: 1.0,
            monotonic_ns: self.monotonic_ns,
            stack: self.stack,
            tid: self.tid,
            family: format::PRELOADED_FAMILY,
        };
        let flags = live_flags::EXTENT
            | if self.is_reserved { live_flags::RESERVED } else { 0 }
            | if self.is_shared { live_flags::SHARED } else { 0 };
        (sample, flags)
    }
}

impl Freed {
    /// All except the check.
    pub fn walk(&mut self, entry: &mut impl Fields) {
        use format::Freed as F;
        entry.u64(offset_of!(F, number), &mut self.number);
        entry.u64(offset_of!(F, address), &mut self.address);
        entry.u64(offset_of!(F, size), &mut self.size);
        entry.u64(offset_of!(F, alloc_monotonic_ns), &mut self.alloc_monotonic_ns);
        entry.u64(offset_of!(F, free_monotonic_ns), &mut self.free_monotonic_ns);
        entry.index(offset_of!(F, alloc_stack), &mut self.alloc_stack);
        let mut free_stack = self.free_stack.map_or(NO_STACK, |stack| stack as u32);
        entry.u32(offset_of!(F, free_stack), &mut free_stack);
        self.free_stack = (free_stack != NO_STACK).then_some(free_stack as usize);
        entry.u32(offset_of!(F, alloc_tid), &mut self.alloc_tid);
        entry.u32(offset_of!(F, free_tid), &mut self.free_tid);
    }
}

/// Computes the check that this entry must contain.
pub fn freed_check(entry: Entry) -> u64 {
    format::freed_check(&std::array::from_fn(|word| entry.u64(word * 8)))
}

pub fn freed(mut entry: Entry) -> Option<Freed> {
    let mut freed = Freed::default();
    freed.walk(&mut entry);
    let check = entry.u64(offset_of!(format::Freed, check));
    (freed.number != 0 && check == freed_check(entry)).then_some(freed)
}

impl FailedAllocation {
    /// All except the check; the record begins at this offset.
    pub fn walk(&mut self, at: usize, page: &mut impl Fields) {
        use format::Failure as F;
        page.u64(at + offset_of!(F, size), &mut self.size);
        page.u64(at + offset_of!(F, monotonic_ns), &mut self.monotonic_ns);
        page.index(at + offset_of!(F, stack), &mut self.stack);
        page.u32(at + offset_of!(F, tid), &mut self.tid);
    }

    /// Computes the check that its entry must contain.
    pub fn check(&self) -> u64 {
        failure_check(self.size, self.monotonic_ns, self.stack as u32, self.tid)
    }
}

/// The one at this offset of a header; `stack` is still the number in the file.
pub fn failure(mut header: Entry, at: usize) -> Option<FailedAllocation> {
    let mut failure = FailedAllocation::default();
    failure.walk(at, &mut header);
    let check = header.u64(at + offset_of!(format::Failure, check));
    (check == failure.check()).then_some(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_keeps_empty_words() {
        let read = |joined: &str| {
            let mut header = Header::default();
            header.set_command(joined);
            header.command
        };
        assert_eq!(read("redis\0--save\0\0"), ["redis", "--save", ""]);
        assert_eq!(read("redis\0\0--port\0"), ["redis", "", "--port"]);
        assert_eq!(read("nginx: worker process\0\0\0\0"), ["nginx: worker process"]);
        assert_eq!(read("redis\0--port"), ["redis", "--port"]);
        assert!(read("").is_empty());
        for command in [vec!["a"], vec!["a", ""], vec!["a", "", "b"], vec!["a", "", ""]] {
            let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
            let header = Header { command: command.clone(), ..Header::default() };
            let kept = if command.ends_with(&["".into(), "".into()]) { 1 } else { command.len() };
            assert_eq!(read(&header.joined_command()), command[..kept]);
        }
    }
}
