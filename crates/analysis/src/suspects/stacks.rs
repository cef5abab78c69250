//! From snapshots to one history per stack as its frames are named: stacks that differ only in what a reader does not see (code
//! addresses, the allocator's own frames, what a filter hides) are one.

use super::course::Course;
use crate::named::stack_number;
use crate::overlap::{self, of_stack};
use crate::{extents, inside};
use ramson_format::{GO_FAMILY, Kind, stack_flags};
use ramson_leaks::{Finding, LiveBlock, MeasuredChange, Settings, StackHistory, judge};
use ramson_profile::{
    Calibration, Estimate, FrameAt, FrameName, FrameTable, Profile, SampleUnit, StackSample,
};
use ramson_reader::{Snapshot, Stack};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::mem;

/// A stack with live samples.
#[derive(Clone)]
pub struct NamedStack {
    /// Leaf first, with lines.
    pub frames: Vec<FrameName>,
    /// History that is judged.
    pub history: StackHistory,
}

impl NamedStack {
    /// The verdict on it, as one of so many.
    pub fn judged(&self, stacks: usize, min_age_ns: u64) -> Finding {
        judge(&self.history, &Settings { min_age_ns, stacks })
    }
}

/// Every stack of `profile` that has live samples; `profile` is of the snapshot as it was at `now_ns`, with numbered stacks.
pub fn stacks(
    snapshot: &Snapshot,
    now_ns: u64,
    course: Option<&Course>,
    profile: &Profile,
) -> Vec<NamedStack> {
    let table = FrameTable::new(profile);
    let mut live = live_blocks(snapshot);
    // Blocks that were live before a detach are not known afterwards.
    let earlier = course.and_then(|course| course.earlier.as_ref());
    let earlier = earlier.filter(|earlier| snapshot.header.live_since_ns() <= earlier.now_ns);
    let total = course.and_then(Course::total_change);
    let changes = earlier.map(|earlier| changes(&earlier.recording.snapshot, snapshot, total));
    let window_ns = earlier.map_or(0, |earlier| now_ns.saturating_sub(earlier.now_ns));
    let mut found: HashMap<Vec<FrameAt>, NamedStack> = HashMap::new();
    for sample in &profile.samples {
        let Some(number) = stack_number(sample) else { continue };
        let stack = &snapshot.stacks[number];
        let history = StackHistory {
            start_ns: snapshot.header.live_since_ns(),
            first_ns: stack.first_monotonic_ns.max(snapshot.header.live_since_ns()),
            now_ns: now_of(snapshot, stack, now_ns),
            lifetimes: stack.lifetimes,
            live: mem::take(&mut live[number]),
            measured: changes.as_ref().map(|changes| MeasuredChange {
                change: changes.get(&number).copied().unwrap_or_default(),
                window_ns,
            }),
            processes: BTreeMap::new(),
        };
        match found.entry(table.stack(sample).collect()) {
            Entry::Occupied(mut known) => known.get_mut().history.join(&history),
            Entry::Vacant(place) => {
                let frames = place.key().iter().map(|&at| table.name_at(at)).collect();
                place.insert(NamedStack { frames, history });
            }
        }
    }
    found.into_values().filter(|stack| !stack.history.live.is_empty()).collect()
}

/// Returns the moment up to which a stack's samples are known: Go's own end earlier than the others.
fn now_of(snapshot: &Snapshot, stack: &Stack, now_ns: u64) -> u64 {
    let is_of_go = stack.flags & stack_flags::GO != 0;
    snapshot.go_now_ns().filter(|_| is_of_go).unwrap_or(now_ns)
}

/// Every stack of `profile`, each with its number in the snapshot, also where several have the same frames.
pub fn by_number(snapshot: &Snapshot, now_ns: u64, profile: &Profile) -> Vec<(usize, NamedStack)> {
    let table = FrameTable::new(profile);
    let mut live = live_blocks(snapshot);
    let of_sample = |sample: &StackSample| {
        let number = stack_number(sample)?;
        let history = StackHistory {
            start_ns: snapshot.header.live_since_ns(),
            first_ns: snapshot.stacks[number]
                .first_monotonic_ns
                .max(snapshot.header.live_since_ns()),
            now_ns,
            live: mem::take(&mut live[number]),
            ..StackHistory::default()
        };
        let frames = table.stack(sample).map(|at| table.name_at(at)).collect();
        Some((number, NamedStack { frames, history }))
    };
    profile.samples.iter().filter_map(of_sample).collect()
}

/// By the number of the stack; without blocks of allocators whose frees are missed, which may be long gone.
fn live_blocks(snapshot: &Snapshot) -> Vec<Vec<LiveBlock>> {
    let mut live: Vec<Vec<LiveBlock>> = vec![Vec::new(); snapshot.stacks.len()];
    let inside = inside::of(snapshot).into_iter().filter(|it| it.is_upper_bound);
    let doubtful: Vec<u8> = inside.map(|it| it.family).collect();
    let of_heap = extents::live(snapshot, Some(Kind::Heap));
    for sample in of_heap.filter(|sample| !doubtful.contains(&sample.family)) {
        let first_ns = snapshot.stacks[sample.stack].first_monotonic_ns;
        live[sample.stack].push(LiveBlock {
            bytes: sample.estimate(SampleUnit::Bytes),
            // The first look at a Go program found it.
            is_older: sample.family == GO_FAMILY && sample.monotonic_ns <= first_ns,
            ..LiveBlock::new(sample.monotonic_ns, sample.size, sample.inverse_probability)
        });
    }
    live
}

/// The stacks of several processes, each with its moment, judged as if one process had them all: their moments fall together, so
/// that ages stay. How fast they grow is the sum of what each process grows by.
pub fn together(all: Vec<(u64, Vec<NamedStack>)>) -> Vec<NamedStack> {
    let now_ns = all.iter().map(|(now_ns, _)| *now_ns).max().unwrap_or(0);
    let is_several = all.len() > 1;
    let mut found: HashMap<Vec<FrameName>, NamedStack> = HashMap::new();
    for (number, (own_now_ns, stacks)) in all.into_iter().enumerate() {
        for mut stack in stacks {
            stack.history.shift(now_ns - own_now_ns);
            if is_several {
                // Each process has a calibration of its own.
                let blocks = stack.history.live.iter_mut();
                blocks.for_each(|block| block.bytes = block.bytes.settled());
                if let Some(measured) = &mut stack.history.measured {
                    measured.change = measured.change.settled();
                }
                stack.history = stack.history.of_process(number);
            }
            match found.entry(stack.frames.clone()) {
                Entry::Vacant(place) => drop(place.insert(stack)),
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.history.join(&stack.history);
                }
            }
        }
    }
    let mut stacks: Vec<NamedStack> = found.into_values().collect();
    // Equal verdicts and bytes appear in the same order each time.
    stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    stacks
}

/// Later − earlier live bytes by number of the stack in the later snapshot, without the error of what lives in both; calibrated by the
/// change of the allocator's total, if that is known.
fn changes(old: &Snapshot, new: &Snapshot, total: Option<Estimate>) -> HashMap<usize, Estimate> {
    let Some(parts) = overlap::split(old, new) else { return HashMap::new() };
    let numbers: HashMap<_, usize> =
        new.stacks.iter().enumerate().map(|(number, stack)| (of_stack(stack), number)).collect();
    let heap = Some(Kind::Heap);
    let added = extents::live(&parts.new, heap).map(|it| (Some(it.stack), it.sampled()));
    let removed = extents::live(&parts.old, heap)
        .map(|it| (numbers.get(&of_stack(&old.stacks[it.stack])).copied(), -it.sampled()));
    let samples: Vec<(Option<usize>, Estimate)> = added.chain(removed).collect();
    let by = |total| {
        let samples = samples.iter().map(|&(_, bytes)| bytes);
        Calibration::by(samples, total, new.header.interval_bytes)
    };
    let calibration = total.and_then(by).unwrap_or_default();
    let mut changes: HashMap<usize, Estimate> = HashMap::new();
    for (stack, bytes) in samples {
        if let Some(stack) = stack {
            *changes.entry(stack).or_default() += calibration.of(bytes);
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_reader::{Allocator, Header, LiveSample, Stack};

    fn stack(name: &str, history: StackHistory) -> NamedStack {
        let frame = FrameName { name: name.into(), line: 7, ..FrameName::default() };
        NamedStack { frames: vec![frame], history }
    }

    fn block(time_ns: u64) -> LiveBlock {
        LiveBlock::new(time_ns, 100, 2.0)
    }

    #[test]
    fn blocks_whose_frees_are_missed_are_not_judged() {
        let sample = |address, family| LiveSample {
            address,
            family,
            size: 100,
            inverse_probability: 2.0,
            ..LiveSample::default()
        };
        let allocator = |family, missed_frees| Allocator {
            family,
            samples: 1000,
            missed_frees,
            ..Allocator::default()
        };
        let snapshot = Snapshot {
            stacks: vec![Stack::default()],
            live: vec![sample(4096, 0), sample(8192, 1), sample(12288, 2)],
            allocators: vec![allocator(1, 1), allocator(2, 2)],
            ..Snapshot::default()
        };
        assert_eq!(live_blocks(&snapshot)[0].len(), 2);
    }

    /// 100 samples a second, all kept. As an attach forgets what was live before, the time before it must not count.
    #[test]
    fn growth_counts_from_latest_attach() {
        const SECOND: u64 = 1_000_000_000;
        let header = Header {
            start_monotonic_ns: SECOND,
            attached_monotonic_ns: 120 * SECOND,
            ..Header::default()
        };
        let live: Vec<LiveBlock> = (12_000..19_100).map(|at| block(at * SECOND / 100)).collect();
        let growth = |start_ns| {
            let history = StackHistory {
                start_ns,
                first_ns: start_ns,
                now_ns: 191 * SECOND,
                live: live.clone(),
                ..StackHistory::default()
            };
            let judged = stack("leak", history).judged(1, SECOND).growth.unwrap();
            // Weight 2, 100 bytes.
            judged.per_hour.value / (100.0 * 200.0 * 3600.0)
        };
        assert!((growth(header.live_since_ns()) - 1.0).abs() < 0.01);
        assert_eq!(Header { attached_monotonic_ns: 0, ..header }.live_since_ns(), SECOND);
    }

    #[test]
    fn equal_stacks_of_processes_are_merged() {
        let change = |value, window_ns| {
            let change = Estimate::new(value, value);
            Some(MeasuredChange { change, window_ns })
        };
        let one = StackHistory {
            start_ns: 10,
            first_ns: 20,
            now_ns: 1000,
            live: vec![block(900)],
            measured: change(5.0, 60),
            ..StackHistory::default()
        };
        // It ended 200 ns before.
        let mut other = StackHistory {
            start_ns: 100,
            first_ns: 150,
            now_ns: 800,
            live: vec![block(400)],
            measured: change(3.0, 50),
            ..StackHistory::default()
        };
        other.lifetimes[3] = 4;
        let alone = stack("only_here", other.clone());
        let all =
            vec![(1000, vec![stack("shared", one)]), (800, vec![stack("shared", other), alone])];
        let together = together(all);
        let names: Vec<&str> = together.iter().map(|stack| &*stack.frames[0].name).collect();
        assert_eq!(names, ["only_here", "shared"]);
        let history = &together[1].history;
        assert_eq!((history.start_ns, history.first_ns, history.now_ns), (10, 20, 1000));
        let ages: Vec<u64> = history.live.iter().map(|block| 1000 - block.time_ns).collect();
        assert_eq!(ages, [100, 400]);
        assert_eq!(history.lifetimes[3], 4);
        assert_eq!(history.measured, change(8.0, 60));
        assert_eq!(together[0].history.start_ns, 300);
    }
}
