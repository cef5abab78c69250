//! What the program mapped itself, beside the heap.

use ramson_format::{Kind, flags};
use ramson_profile::{Estimate, SampleUnit};
use ramson_reader::{Extent, LiveSample, Snapshot};
use serde::Serialize;
use std::iter;
use std::ops::Range;

/// A live sample, or an extent: reservations, which are no memory in use, are none.
pub struct Live {
    /// Index into `Snapshot::stacks`.
    pub stack: usize,
    pub size: u64,
    pub tid: u32,
    /// On the clock of the profile.
    pub monotonic_ns: u64,
    inverse_probability: f64,
}

impl Live {
    /// Of the objects or bytes, what it stands for.
    pub fn estimate(&self, unit: SampleUnit) -> Estimate {
        Estimate::of_sample(self.size, self.inverse_probability, unit)
    }
}

/// All of one kind, or of both.
pub fn live(snapshot: &Snapshot, kind: Option<Kind>) -> impl Iterator<Item = Live> {
    let heap = snapshot.live.iter().map(|sample| {
        let &LiveSample { stack, size, tid, monotonic_ns, inverse_probability, .. } = sample;
        Live { stack, size, tid, monotonic_ns, inverse_probability }
    });
    let extents = snapshot.extents.iter().filter(|extent| !extent.is_reserved).map(|extent| {
        let &Extent { stack, bytes: size, tid, monotonic_ns, .. } = extent;
        Live { stack, size, tid, monotonic_ns, inverse_probability: 1.0 }
    });
    let is_of = move |stack: usize| kind.is_none_or(|kind| snapshot.stacks[stack].kind() == kind);
    heap.chain(extents).filter(move |live| is_of(live.stack))
}

/// Live bytes of the heap, without what the program mapped itself.
pub fn live_heap(snapshot: &Snapshot) -> Estimate {
    live(snapshot, Some(Kind::Heap)).map(|live| live.estimate(SampleUnit::Bytes)).sum()
}

/// What a program mapped itself, in sums.
#[derive(Default, Serialize)]
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
    /// Of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let (reserved, mapped): (Vec<&Extent>, Vec<&Extent>) =
            snapshot.extents.iter().partition(|extent| extent.is_reserved);
        let bytes = |all: &[&Extent]| all.iter().map(|extent| extent.bytes).sum::<u64>() as f64;
        let is_clipped = snapshot.header.flags & flags::CLIPPED != 0;
        Self {
            mapped: Estimate::exact(bytes(&mapped)),
            extents: mapped.len(),
            reserved: Estimate::exact(bytes(&reserved)),
            without_holes: snapshot.extents.is_empty() || is_clipped,
        }
    }
}

/// Of several processes.
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
