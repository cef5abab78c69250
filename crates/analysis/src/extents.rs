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
    /// Bytes.
    pub size: u64,
    /// Thread.
    pub tid: u32,
    /// 1/p of its sample.
    pub inverse_probability: f64,
}

/// All of one kind, or of both.
pub fn live(snapshot: &Snapshot, kind: Option<Kind>) -> impl Iterator<Item = Live> {
    let heap = snapshot.live.iter().map(
        |&LiveSample { stack, size, tid, inverse_probability, .. }| Live {
            stack,
            size,
            tid,
            inverse_probability,
        },
    );
    let extents = snapshot.extents.iter().filter(|extent| !extent.is_reserved);
    let all = heap.chain(extents.map(|&Extent { stack, bytes, tid, .. }| Live {
        stack,
        size: bytes,
        tid,
        inverse_probability: 1.0,
    }));
    all.filter(move |live| kind.is_none_or(|kind| snapshot.stacks[live.stack].kind() == kind))
}

/// Live bytes of the heap, without what the program mapped itself.
pub fn live_heap(snapshot: &Snapshot) -> Estimate {
    let bytes = SampleUnit::Bytes;
    live(snapshot, Some(Kind::Heap))
        .map(|live| Estimate::of_sample(live.size, live.inverse_probability, bytes))
        .sum()
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
        let of = |is_reserved: bool| {
            snapshot.extents.iter().filter(move |extent| extent.is_reserved == is_reserved)
        };
        let bytes = |is_reserved| {
            Estimate::exact(of(is_reserved).map(|extent| extent.bytes).sum::<u64>() as f64)
        };
        let is_clipped = snapshot.header.flags & flags::CLIPPED != 0;
        Self {
            mapped: bytes(false),
            extents: of(false).count(),
            reserved: bytes(true),
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
