//! Several profiles of ended processes as one: what is kept of them when there is no room for each.
//!
//! Frames keep their place in their binaries: each binary is once in the sum, at an address of the sum's own where another binary has
//! its first one. Times are those before each process's end, so that ages mean the same as in each profile. A sum can be added to
//! another like any profile.

use crate::recording::Recording;
use crate::snapshot_bytes::snapshot_bytes;
use ramson_format::{EPOCH_OPEN, Health, KINDS, Kind, LookupAddress, PAGE_BYTES, flags, state};
use ramson_reader::{Extent, Header, LiveSample, Mapping, Snapshot, Stack};
use ramson_symbols::CarriedNames;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Bytes of a stack and its frames, nearly, and of a live sample.
const STACK_BYTES: u64 = 512;
const LIVE_BYTES: u64 = 56;
/// More stacks and live samples are in no sum, however large it may be.
const MOST_STACKS: u64 = 1 << 14;
const MOST_LIVE: u64 = 1 << 16;
/// Further ones are counted as dropped.
const MOST_EXTENTS: usize = 1 << 12;
/// Frames in further ones are unknown.
const MOST_MAPPINGS: usize = 1 << 12;
/// Time at which all processes of a sum end, on the clock of the sum's times, in ns.
const END_NS: u64 = 1 << 60;
/// First address for binaries whose own address is taken: no Linux process has code here.
const FREE_ADDRESSES: u64 = 1 << 56;
/// Live samples have numbers for addresses, from here on.
const FIRST_SAMPLE: u64 = 1 << 20;
const FIRST_EXTENT: u64 = 1 << 40;
/// The address of what was in no binary: at the same address, another process had something else.
const NOWHERE: LookupAddress = LookupAddress(0);

/// Empty at first.
pub struct Sum {
    /// It is of processes with one command line, else with one executable.
    has_arguments: bool,
    /// Further ones count as overflow stacks.
    most_stacks: u64,
    /// Most live samples. If there are more, some stay and stand for the others.
    most_live: u64,
    snapshot: Snapshot,
    names: CarriedNames,
    /// Indices of stacks.
    stacks: HashMap<(Kind, Vec<LookupAddress>), usize>,
    /// Indices of mappings, by what they are apart from their address.
    mappings: HashMap<Mapping, usize>,
    free_address: u64,
    free_extent: u64,
}

impl Sum {
    /// One that takes so many bytes, nearly, beside its mappings and names.
    pub fn within(bytes: u64) -> Self {
        let stacks = KINDS.map(Stack::overflow).to_vec();
        Self {
            has_arguments: true,
            most_stacks: (bytes / 2 / STACK_BYTES).min(MOST_STACKS),
            most_live: (bytes / 2 / LIVE_BYTES).min(MOST_LIVE),
            snapshot: Snapshot { stacks, ..Snapshot::default() },
            names: CarriedNames::default(),
            stacks: HashMap::new(),
            mappings: HashMap::new(),
            free_address: FREE_ADDRESSES,
            free_extent: FIRST_EXTENT,
        }
    }

    /// The same of processes whose arguments may differ.
    pub fn of_executable_within(bytes: u64) -> Self {
        Self { has_arguments: false, ..Self::within(bytes) }
    }

    /// Adds the profile of a process that has ended, or a sum.
    pub fn add(&mut self, recording: &Recording) {
        let Snapshot { header, mappings, stacks, live, extents, .. } = &recording.snapshot;
        self.add_header(header);
        let places: Vec<_> = mappings.iter().map(|mapping| self.place(mapping)).collect();
        let place = |frame: LookupAddress, epoch| {
            let index = recording.snapshot.mapping_at(frame, epoch)?;
            Some(LookupAddress(places[index]? + (frame.0 - mappings[index].start)))
        };
        let first_stacks = KINDS.map(Kind::overflow_stack);
        let numbers: Vec<usize> = (0..)
            .zip(stacks)
            .map(|(number, stack)| {
                let placed = |&frame: &_| place(frame, stack.epoch).unwrap_or(NOWHERE);
                let mut frames: Vec<_> = stack.frames.iter().map(placed).collect();
                frames.dedup_by(|a, b| (*a, *b) == (NOWHERE, NOWHERE));
                let is_overflow = first_stacks.contains(&number);
                self.add_stack(if is_overflow { Vec::new() } else { frames }, header, stack)
            })
            .collect();
        let before_end = |ns: u64| END_NS - header.last_monotonic_ns.saturating_sub(ns).min(END_NS);
        for sample in live {
            let stack = numbers[sample.stack];
            let monotonic_ns = before_end(sample.monotonic_ns);
            self.snapshot.live.push(LiveSample { stack, monotonic_ns, ..*sample });
        }
        self.thin();
        for extent in extents {
            let stack = numbers[extent.stack];
            let monotonic_ns = before_end(extent.monotonic_ns);
            self.add_extent(Extent { stack, monotonic_ns, ..*extent });
        }
        if let Some(names) = &recording.names {
            self.names.add_binaries(names);
        }
    }

    /// The bytes of a profile file.
    pub fn to_bytes(&mut self) -> Vec<u8> {
        for (sample, number) in self.snapshot.live.iter_mut().zip(0..) {
            sample.address = FIRST_SAMPLE + number;
        }
        let mut bytes = snapshot_bytes(&self.snapshot, &self.snapshot.header);
        if self.names.count() > 0 {
            bytes.extend(self.names.to_block());
        }
        bytes
    }

    fn add_header(&mut self, from: &Header) {
        let most_words = if self.has_arguments { usize::MAX } else { 1 };
        let to = &mut self.snapshot.header;
        if to.processes == 0 {
            *to = Header {
                state: state::EXITED,
                exit_status: -1,
                flags: from.flags & (flags::ATTACHED | flags::HOOKED),
                comm: from.comm.clone(),
                exe: from.exe.clone(),
                command: from.command.iter().take(most_words).cloned().collect(),
                root: from.root.clone(),
                start_monotonic_ns: END_NS,
                last_monotonic_ns: END_NS,
                health: vec![0; from.health.len()],
                ..Header::default()
            };
        }
        let before_ns = to.last_monotonic_ns - to.start_monotonic_ns;
        let life_ns = from.last_monotonic_ns.saturating_sub(from.start_monotonic_ns);
        let last_ns = to.start_realtime_ns.saturating_add(before_ns);
        let ended_ns = from.unix_ns(from.last_monotonic_ns).max(last_ns);
        let longest_ns = life_ns.max(before_ns).min(END_NS);
        to.start_monotonic_ns = END_NS - longest_ns;
        to.start_realtime_ns = ended_ns.saturating_sub(longest_ns);
        to.flags |= from.flags & flags::UNSTEADY_CYCLES;
        to.processes = to.processes.saturating_add(from.processes.max(1));
        to.interval_bytes = to.interval_bytes.max(from.interval_bytes);
        to.configured_interval_bytes =
            to.configured_interval_bytes.max(from.configured_interval_bytes);
        to.max_overhead_ppm = to.max_overhead_ppm.max(from.max_overhead_ppm);
        // The differences of cycles count. A program can write any number into its profile.
        for (to, from) in [
            (&mut to.last_cycles, from.last_cycles.saturating_sub(from.start_cycles)),
            (&mut to.last_cycles_ns, from.last_cycles_ns.saturating_sub(from.start_cycles_ns)),
            (&mut to.cpu_ns, from.cpu_ns),
            (&mut to.failures, from.failures),
            (&mut to.aborts, from.aborts),
            (&mut to.unsampled_ns, from.unsampled_ns),
        ] {
            *to = to.saturating_add(from);
        }
        let counts = to.health.iter_mut().zip(&from.health);
        counts.for_each(|(to, from)| *to = to.saturating_add(*from));
    }

    /// The address at which a mapping begins in the sum; `None` if it is not valid or there is no room for it.
    fn place(&mut self, mapping: &Mapping) -> Option<u64> {
        let bytes = mapping.end.checked_sub(mapping.start)?;
        let bias_from = |start: u64| mapping.bias.wrapping_sub(mapping.start).wrapping_add(start);
        let at = |start: u64| Mapping {
            start,
            end: start + bytes,
            bias: bias_from(start),
            epochs: 0..EPOCH_OPEN,
            ..mapping.clone()
        };
        let key = at(0);
        let all = &mut self.snapshot.mappings;
        if let Some(&index) = self.mappings.get(&key) {
            return Some(all[index].start);
        }
        let is_free = |range: Range<u64>| {
            range.start > 0
                && !all.iter().any(|other| range.start < other.end && other.start < range.end)
        };
        let own = mapping.start..mapping.end;
        let start = if is_free(own) { mapping.start } else { self.free_address };
        let end = start.checked_add(bytes)?;
        if all.len() == MOST_MAPPINGS {
            *self.snapshot.header.health.get_mut(Health::DroppedMappings as usize)? += 1;
            return None;
        }
        self.free_address = self.free_address.max((end + PAGE_BYTES).next_multiple_of(PAGE_BYTES));
        self.mappings.insert(key, all.len());
        all.push(at(start));
        Some(start)
    }

    /// Adds the counters of a stack that has these frames in the sum; its index there.
    fn add_stack(&mut self, frames: Vec<LookupAddress>, header: &Header, stack: &Stack) -> usize {
        let kind = stack.kind();
        let all = &mut self.snapshot.stacks;
        let overflow = kind.overflow_stack() as usize;
        // Stacks of frees only.
        let is_used = stack.alloc_objects > 0.0 || stack.sampled_alloc_objects > 0;
        let index = match self.stacks.get(&(kind, frames.clone())) {
            _ if frames.is_empty() || !is_used => overflow,
            Some(&index) => index,
            None if (all.len() as u64) < self.most_stacks => {
                self.stacks.insert((kind, frames.clone()), all.len());
                all.push(Stack {
                    frames,
                    flags: stack.flags,
                    first_monotonic_ns: END_NS,
                    ..Stack::default()
                });
                all.len() - 1
            }
            None => {
                let dropped = &mut self.snapshot.header.health[Health::DroppedStacks as usize];
                *dropped = dropped.saturating_add(stack.sampled_alloc_objects);
                overflow
            }
        };
        let age_ns = header.last_monotonic_ns.saturating_sub(stack.first_monotonic_ns).min(END_NS);
        let flags = if index == overflow { kind.stack_flags() } else { stack.flags };
        let counters = Stack { flags, first_monotonic_ns: END_NS - age_ns, ..stack.clone() };
        all[index].add_counters(counters);
        index
    }

    /// While there are too many, those that stand for the fewest bytes stand for twice as many, or go: which, is drawn so that estimates
    /// stay unbiased, and intervals tell what it cost.
    fn thin(&mut self) {
        let bytes = |sample: &LiveSample| sample.size.max(1) as f64 * sample.inverse_probability;
        while self.snapshot.live.len() as u64 > self.most_live {
            let fewest = self.snapshot.live.iter().map(bytes).fold(f64::MAX, f64::min);
            let level = 2.0 * fewest;
            let processes = self.snapshot.header.processes;
            let mut number = 0;
            self.snapshot.live.retain_mut(|sample| {
                let share = bytes(sample) / level;
                if share >= 1.0 {
                    return true;
                }
                number += 1;
                sample.inverse_probability /= share;
                drawn(&(level.to_bits(), processes, number)) < share
            });
        }
    }

    fn add_extent(&mut self, extent: Extent) {
        let end = self.free_extent.checked_add(extent.bytes).filter(|&end| end < FREE_ADDRESSES);
        let Some(end) = end.filter(|_| self.snapshot.extents.len() < MOST_EXTENTS) else {
            self.snapshot.header.health[Health::DroppedExtents as usize] += 1;
            return;
        };
        self.snapshot.extents.push(Extent { start: self.free_extent, ..extent });
        // Those that touch are not joined by a reader that cuts what overlaps.
        self.free_extent = (end + PAGE_BYTES).next_multiple_of(PAGE_BYTES);
    }
}

/// A number from 0 to 1 that is the same for the same seed.
fn drawn(seed: &(u64, u64, u64)) -> f64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    hasher.finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::{Estimate, SampleUnit};

    const LIBRARY: u64 = 0x1000;

    /// The recording of a process that mapped the library at `start`, and lived for 100 ns. Each block is of the one stack there.
    fn recording(start: u64, blocks: &[(u64, f64)]) -> Recording {
        let mapping = Mapping {
            start,
            end: start + LIBRARY,
            bias: start,
            epochs: 0..EPOCH_OPEN,
            path: "/lib/a".into(),
            ..Mapping::default()
        };
        let frames = vec![LookupAddress(start + 7), LookupAddress(1), LookupAddress(2)];
        let stack = Stack {
            frames,
            sampled_alloc_objects: blocks.len() as u64,
            alloc_objects: blocks.len() as f64,
            first_monotonic_ns: 1_000_010,
            ..Stack::default()
        };
        let live = blocks.iter().map(|&(size, inverse_probability)| LiveSample {
            size,
            inverse_probability,
            stack: 2,
            monotonic_ns: 1_000_040,
            ..LiveSample::default()
        });
        let header = Header {
            start_monotonic_ns: 1_000_000,
            last_monotonic_ns: 1_000_100,
            start_realtime_ns: start,
            health: vec![0; ramson_format::HEALTH.len()],
            ..Header::default()
        };
        let stacks = KINDS.map(Stack::overflow).into_iter().chain([stack]).collect();
        let snapshot = Snapshot {
            header,
            mappings: vec![mapping],
            stacks,
            live: live.collect(),
            ..Snapshot::default()
        };
        Recording::of(snapshot, None, String::new())
    }

    fn read(sum: &mut Sum) -> Snapshot {
        let snapshot = Snapshot::read(sum.to_bytes().as_slice()).unwrap();
        assert_eq!(snapshot.defects, []);
        snapshot
    }

    #[test]
    fn processes_share_stacks_in_sum() {
        let mut sum = Sum::within(1 << 20);
        for start in [0x7000, 0x9000, 0x7800] {
            sum.add(&recording(start, &[(100, 1.0), (50, 2.0)]));
        }
        let once = read(&mut sum);
        assert_eq!((once.header.processes, once.stacks.len(), once.mappings.len()), (3, 3, 1));
        let stack = &once.stacks[2];
        // Adjacent frames in no binary are one unknown frame.
        assert_eq!(stack.frames, [LookupAddress(0x7007), NOWHERE]);
        assert_eq!((stack.sampled_alloc_objects, once.live.len()), (6, 6));
        let age = |ns: u64| once.header.last_monotonic_ns - ns;
        assert_eq!((age(stack.first_monotonic_ns), age(once.live[0].monotonic_ns)), (90, 60));
        assert_eq!(once.header.unix_ns(once.header.last_monotonic_ns), 0x9000 + 100);
        // A sum of one sum is the same, and a library in the place of another one gets another address.
        let mut again = Sum::within(1 << 20);
        again.add(&Recording::of(once.clone(), None, String::new()));
        assert_eq!(read(&mut again), once);
        let mut other = recording(0x7000, &[(1, 1.0)]);
        other.snapshot.mappings[0].path = "/lib/b".into();
        again.add(&other);
        let both = read(&mut again);
        assert_eq!((both.stacks.len(), both.mappings.len()), (4, 2));
        let at = both.mapping_at(both.stacks[3].frames[0], 0).unwrap();
        assert_eq!(both.mappings[at].path, "/lib/b");
        let offset = both.stacks[3].frames[0].0 - both.mappings[at].bias;
        assert_eq!(offset, 7);
    }

    #[test]
    fn overfull_sum_stays_unbiased() {
        const ROOM: u64 = 2 * 56 * 500;
        const PROCESSES: u64 = 400;
        let mut sum = Sum::within(ROOM);
        for start in 0..PROCESSES {
            // A large block among small ones stays.
            let large = if start == 0 { 1 << 30 } else { 100 };
            let blocks: Vec<_> = (0..50).map(|_| (100, 1.0)).chain([(large, 1.0)]).collect();
            sum.add(&recording(0x7000 + (start << 12), &blocks));
        }
        let live = read(&mut sum).live;
        assert!((250..=500).contains(&live.len()), "{}", live.len());
        let estimate: Estimate = live
            .iter()
            .map(|it| Estimate::of_sample(it.size, it.inverse_probability, SampleUnit::Bytes))
            .sum();
        let expected = ((PROCESSES * 51 - 1) * 100 + (1 << 30)) as f64;
        let width = estimate.half_width_95();
        assert!((estimate.value - expected).abs() < 2.0 * width, "{} ± {width}", estimate.value);
        assert!(width < 0.15 * (PROCESSES * 5100) as f64, "{width}");
        assert!(live.iter().any(|it| (it.size, it.inverse_probability) == (1 << 30, 1.0)));
    }
}
