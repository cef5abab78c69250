//! Memory that the program mapped itself, in addition to the heap.

use ramson_format::{GO_FAMILY, Health, Kind, PRELOADED_FAMILY, flags, stack_flags};
use ramson_process::{Presence, ProcessMemory};
use ramson_profile::format::format_objects;
use ramson_profile::{Calibration, Estimate, SampleUnit};
use ramson_reader::{Counting, Extent, LiveSample, Roundings, Snapshot};
use serde::Serialize;
use std::borrow::Cow;
use std::iter;
use std::ops::Range;

/// A live sample, or an extent: reservations, which are no memory in use, are none.
pub struct Live {
    /// Index into `Snapshot::stacks`.
    pub stack: usize,
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    pub tid: u32,
    /// On the clock of the profile.
    pub monotonic_ns: u64,
    pub inverse_probability: f64,
    /// Bytes that count: usable or requested ones.
    bytes: u64,
    calibration: Calibration,
    /// Number of its allocator: `PRELOADED_FAMILY`, or one inside an object.
    pub family: u8,
    /// Others like it were lost.
    is_part: bool,
}

impl Live {
    /// Estimates the objects or bytes that the sample stands for.
    pub fn estimate(&self, unit: SampleUnit) -> Estimate {
        let estimate = Estimate::of_sample(self.bytes, self.inverse_probability, unit);
        self.whole(match unit {
            SampleUnit::Objects => estimate,
            SampleUnit::Bytes => self.calibration.of(estimate),
        })
    }

    /// Estimates the bytes that the sample stands for as if nothing but the samples were known.
    pub fn sampled(&self) -> Estimate {
        self.whole(Estimate::of_sample(self.bytes, self.inverse_probability, SampleUnit::Bytes))
    }

    fn whole(&self, estimate: Estimate) -> Estimate {
        if self.is_part { estimate.as_part() } else { estimate }
    }
}

/// All of one kind, or of both.
pub fn live(snapshot: &Snapshot, kind: Option<Kind>) -> impl Iterator<Item = Live> {
    live_as(snapshot, kind, snapshot.counting)
}

fn live_as(
    snapshot: &Snapshot,
    kind: Option<Kind>,
    counting: Counting,
) -> impl Iterator<Item = Live> {
    let [lost_heap, lost_extents] = [Kind::Heap, Kind::Mmap].map(|kind| lost(snapshot, kind) > 0);
    let roundings = Roundings::of(snapshot);
    let heap = snapshot.live.iter().map(move |sample| {
        let &LiveSample { address, stack, size, tid, monotonic_ns, inverse_probability, .. } =
            sample;
        let calibration = match counting {
            // The C library's total says nothing of others.
            Counting::Calibrated { slope, known, until_ns }
                if monotonic_ns <= until_ns && !is_inside(sample) =>
            {
                Calibration { slope, known }
            }
            _ => Calibration::default(),
        };
        Live {
            stack,
            address,
            size,
            tid,
            monotonic_ns,
            inverse_probability,
            bytes: match counting {
                Counting::Requested => size,
                _ => roundings.usable_bytes(sample),
            },
            calibration,
            family: sample.family,
            is_part: lost_heap,
        }
    });
    let extents = snapshot.extents.iter().filter(|extent| !extent.is_reserved).map(move |extent| {
        let &Extent { stack, start: address, bytes, tid, monotonic_ns, .. } = extent;
        Live {
            stack,
            address,
            size: bytes,
            tid,
            monotonic_ns,
            inverse_probability: 1.0,
            bytes,
            calibration: Calibration::default(),
            family: PRELOADED_FAMILY,
            is_part: lost_extents,
        }
    });
    let is_of = move |stack: usize| kind.is_none_or(|kind| snapshot.stacks[stack].kind() == kind);
    heap.chain(extents).filter(move |live| is_of(live.stack))
}

/// Records of a kind that are not among the live ones though they may live.
pub fn lost(snapshot: &Snapshot, kind: Kind) -> u64 {
    let counter = match kind {
        Kind::Heap => Health::DroppedLive,
        Kind::Mmap => Health::DroppedExtents,
    };
    snapshot.header.health.get(counter as usize).copied().unwrap_or(0)
}

/// `, 19,700,000 samples dropped`, where that is so.
pub fn lost_text(snapshot: &Snapshot) -> String {
    match lost(snapshot, Kind::Heap) {
        0 => String::new(),
        1 => ", 1 sample dropped".into(),
        count => format!(", {} samples dropped", format_objects(count as f64)),
    }
}

/// Live bytes of the heap, without what the program mapped itself.
pub fn live_heap(snapshot: &Snapshot) -> Estimate {
    live_heap_as(snapshot, snapshot.counting)
}

/// The same, counted in one way or another.
pub fn live_heap_as(snapshot: &Snapshot, counting: Counting) -> Estimate {
    let live = live_as(snapshot, Some(Kind::Heap), counting);
    let sum: Estimate = live.map(|live| live.estimate(SampleUnit::Bytes)).sum();
    if lost(snapshot, Kind::Heap) > 0 { sum.as_part() } else { sum }
}

/// The live bytes of the heap in two parts, each with an interval of its own.
#[derive(Clone, Copy, Debug)]
pub struct Residence {
    /// On pages that are present.
    pub resident: Estimate,
    /// Never touched, or swapped out.
    pub missing: Estimate,
}

/// Which of the live bytes are resident, by some of the samples. `live` are all of them.
pub fn residence(snapshot: &Snapshot, memory: &ProcessMemory, live: Estimate) -> Residence {
    const MOST_SAMPLES: usize = 10_000;
    let step = snapshot.live.len().div_ceil(MOST_SAMPLES).max(1);
    let mut resident = Estimate::default();
    let mut missing = Estimate::default();
    let roundings = Roundings::of(snapshot);
    for sample in heap_samples(snapshot).step_by(step) {
        let size = roundings.usable_bytes(sample);
        let end = sample.address.saturating_add(size);
        let Some(presence) = Presence::of(memory, sample.address, end) else { continue };
        let bytes = presence.resident_bytes(sample.address, end).min(size);
        // One of so many was looked at: it stands for as many more.
        let weight = sample.inverse_probability * step as f64;
        let of = |bytes| Estimate::of_sample(bytes, weight, SampleUnit::Bytes);
        resident += of(bytes);
        missing += of(size - bytes);
    }
    let all = resident.value + missing.value;
    let part = |part: Estimate, share: f64| {
        let part = Estimate { value: live.value * share, ..part };
        if live.is_part() { part.as_part() } else { part }
    };
    let share = if all > 0.0 { resident.value / all } else { 1.0 };
    Residence { resident: part(resident, share), missing: part(missing, 1.0 - share) }
}

/// Live bytes of the allocators inside objects.
pub fn live_inside(snapshot: &Snapshot) -> Estimate {
    live_of(snapshot, |family| family != PRELOADED_FAMILY)
}

/// Live bytes of the allocators whose numbers are chosen.
pub fn live_of(snapshot: &Snapshot, is_it: impl Fn(u8) -> bool) -> Estimate {
    let roundings = Roundings::of(snapshot);
    let inside = heap_samples(snapshot).filter(|sample| is_it(sample.family));
    let one = |sample: &LiveSample| {
        Estimate::of_sample(
            roundings.usable_bytes(sample),
            sample.inverse_probability,
            SampleUnit::Bytes,
        )
    };
    let sum: Estimate = inside.map(one).sum();
    if lost(snapshot, Kind::Heap) > 0 && !sum.is_nothing() { sum.as_part() } else { sum }
}

fn is_inside(sample: &LiveSample) -> bool {
    sample.family != PRELOADED_FAMILY
}

/// Whether Go's runtime has taken some of the samples.
pub fn has_go(snapshot: &Snapshot) -> bool {
    snapshot.stacks.iter().any(|stack| stack.flags & stack_flags::GO != 0)
}

/// Returns the snapshot without Go's samples; `None`: it has no others.
pub fn without_go(snapshot: &Snapshot) -> Option<Cow<'_, Snapshot>> {
    if snapshot.header.flags & flags::GO != 0 {
        return None;
    }
    if !snapshot.live.iter().any(|sample| sample.family == GO_FAMILY) {
        return Some(Cow::Borrowed(snapshot));
    }
    let mut own = snapshot.clone();
    own.live.retain(|sample| sample.family != GO_FAMILY);
    Some(Cow::Owned(own))
}

/// Addresses of the heap's blocks that live, in their order; all, and those of the allocators inside objects.
pub fn blocks(snapshot: &Snapshot) -> (Vec<u64>, Vec<u64>) {
    let sorted = |samples: &mut dyn Iterator<Item = &LiveSample>| {
        let mut blocks: Vec<u64> = samples.map(|sample| sample.address).collect();
        blocks.sort_unstable();
        blocks
    };
    let mut inside = heap_samples(snapshot).filter(|sample| is_inside(sample));
    (sorted(&mut heap_samples(snapshot)), sorted(&mut inside))
}

fn heap_samples(snapshot: &Snapshot) -> impl Iterator<Item = &LiveSample> {
    snapshot.live.iter().filter(move |sample| snapshot.stacks[sample.stack].kind() == Kind::Heap)
}

/// Sums over the memory that a program mapped itself.
#[derive(Default, Serialize, schemars::JsonSchema)]
pub struct MmapSums {
    /// Mapped and not unmapped.
    pub mapped: Estimate,
    /// How many extents these are.
    pub extents: usize,
    /// Address space that the process cannot touch (PROT_NONE).
    pub reserved: Estimate,
    /// The kernel was asked, while the process ran, what of them is still mapped; else holes that the program unmapped inside
    /// an extent still count.
    pub without_holes: bool,
}

impl MmapSums {
    /// Sums over the extents of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let (reserved, mapped): (Vec<&Extent>, Vec<&Extent>) =
            snapshot.extents.iter().partition(|extent| extent.is_reserved);
        let bytes = |all: &[&Extent]| all.iter().map(|extent| extent.bytes).sum::<u64>() as f64;
        let is_clipped = snapshot.header.flags & flags::CLIPPED != 0;
        let sum = Estimate::exact(bytes(&mapped));
        Self {
            mapped: if lost(snapshot, Kind::Mmap) > 0 { sum.as_part() } else { sum },
            extents: mapped.len(),
            reserved: Estimate::exact(bytes(&reserved)),
            without_holes: snapshot.extents.is_empty() || is_clipped,
        }
    }
}

/// Adds up the sums of several processes.
impl<'a> iter::Sum<&'a Self> for MmapSums {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        let none = Self { without_holes: true, ..Self::default() };
        all.fold(none, |mut sum, one| {
            sum.mapped += one.mapped;
            sum.extents += one.extents;
            sum.reserved += one.reserved;
            sum.without_holes &= one.without_holes;
            sum
        })
    }
}

/// Addresses of what the program mapped itself, in their order.
pub fn ranges(snapshot: &Snapshot) -> Vec<Range<u64>> {
    let used = snapshot.extents.iter().filter(|extent| !extent.is_reserved);
    let mut ranges: Vec<Range<u64>> =
        used.map(|extent| extent.start..extent.start + extent.bytes).collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}
