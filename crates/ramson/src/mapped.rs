//! What the program mapped itself, beside the heap: how much it is, and how much of it is resident.

use ramson_format::Kind;
use ramson_profile::format::{format_bytes, format_objects, format_relative_error};
use ramson_profile::{Estimate, SampleUnit};
use ramson_reader::{Extent, LiveSample, Snapshot};
use serde_json::{Value, json};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const PAGE_BYTES: u64 = 4096;
/// Pages whose entries are read to tell what of a mapping of the kernel is resident; of more, each part gets its share.
const MOST_PAGES: u64 = 1 << 22;

/// A live sample, or an extent: reservations, which are no memory in use, are none.
pub struct Live {
    pub stack: usize,
    pub size: u64,
    pub tid: u32,
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
    let all =
        heap.chain(extents.map(|&Extent { stack, bytes, tid, inverse_probability, .. }| Live {
            stack,
            size: bytes,
            tid,
            inverse_probability,
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

/// Bytes mapped and not unmapped: reservations, or everything else.
fn mapped(snapshot: &Snapshot, is_reserved: bool) -> Estimate {
    let extents = snapshot.extents.iter().filter(|extent| extent.is_reserved == is_reserved);
    let bytes = SampleUnit::Bytes;
    extents.map(|extent| Estimate::of_sample(extent.bytes, extent.inverse_probability, bytes)).sum()
}

/// The line of a summary; `None` if the program maps nothing itself.
pub fn line(snapshot: &Snapshot) -> Option<String> {
    if snapshot.extents.is_empty() {
        return None;
    }
    let (in_use, reserved) = (mapped(snapshot, false), mapped(snapshot, true));
    let extents = snapshot.extents.iter().filter(|extent| !extent.is_reserved).count();
    let mut line = format!(
        "mmap {} ({}) in {} extents, not part of live: --kind mmap",
        format_bytes(in_use.value),
        format_relative_error(in_use),
        format_objects(extents as f64),
    );
    if reserved.value > 0.0 {
        line += &format!("; {} more are only reserved", format_bytes(reserved.value));
    }
    Some(line)
}

/// The same as an object.
pub fn json(snapshot: &Snapshot) -> Value {
    let estimate = |of: Estimate| json!({ "value": of.value.round() as i64, "half_width_95": of.half_width_95().ceil() as i64 });
    json!({
        "mapped": estimate(mapped(snapshot, false)),
        "reserved": estimate(mapped(snapshot, true)),
    })
}

/// What the kernel has resident in one of its mappings.
pub struct Resident {
    pub range: Range<u64>,
    pub bytes: u64,
}

/// Resident bytes of the extents in a mapping of process `pid`; a sampled one counts for those that it stands for. `extents` by
/// address.
pub fn resident_in(pid: u32, resident: &Resident, extents: &[Extent]) -> f64 {
    if resident.bytes == 0 {
        return 0.0;
    }
    let first =
        extents.partition_point(|extent| extent.start + extent.bytes <= resident.range.start);
    let within = extents[first..].iter().take_while(|extent| extent.start < resident.range.end);
    within
        .map(|extent| {
            let start = extent.start.max(resident.range.start);
            let part = start..(extent.start + extent.bytes).min(resident.range.end);
            extent.inverse_probability * resident_part(pid, resident, part)
        })
        .sum()
}

fn resident_part(pid: u32, resident: &Resident, part: Range<u64>) -> f64 {
    let bytes = resident.bytes as f64;
    if part == resident.range {
        return bytes;
    }
    let share = (part.end - part.start) as f64 / (resident.range.end - resident.range.start) as f64;
    present_bytes(pid, &part).map_or(bytes * share, |present| bytes.min(present as f64))
}

/// By /proc/PID/pagemap; `None` where it cannot be read, or is too long.
fn present_bytes(pid: u32, range: &Range<u64>) -> Option<u64> {
    const CHUNK: u64 = 8192;
    let pages = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
    if pages.end - pages.start > MOST_PAGES {
        return None;
    }
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).ok()?;
    let mut present = 0;
    let mut buffer = vec![0; (CHUNK * 8) as usize];
    for first in pages.clone().step_by(CHUNK as usize) {
        let entries = &mut buffer[..(CHUNK.min(pages.end - first) * 8) as usize];
        pagemap.read_exact_at(entries, first * 8).ok()?;
        // Bit 63 of each little-endian word: the page is present.
        present += entries.chunks_exact(8).filter(|entry| entry[7] & 0x80 != 0).count() as u64;
    }
    Some(present * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, bytes: u64, inverse_probability: f64) -> Extent {
        Extent {
            start,
            bytes,
            inverse_probability,
            monotonic_ns: 0,
            stack: 1,
            tid: 1,
            is_reserved: false,
            is_shared: false,
        }
    }

    #[test]
    fn only_the_touched_pages_of_an_extent_are_resident() {
        // Large enough for a mapping of its own, and with room for whole pages on both sides.
        let mut memory = vec![0u8; 64 << 20];
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let offset = (start - memory.as_ptr() as u64) as usize;
        for page in 0..4 {
            memory[offset + (1024 + page) * PAGE_BYTES as usize] = 1;
        }
        let pid = std::process::id();
        let (from, to) = (start + (1 << 20), start + (32 << 20));
        // A huge page may be touched as a whole.
        let present = present_bytes(pid, &(from..to)).unwrap();
        assert!((4 * PAGE_BYTES..=4 << 20).contains(&present), "{present}");
        let resident = Resident { range: start..start + (64 << 20) - PAGE_BYTES, bytes: present };
        let extents = [extent(from, 1 << 20, 1.0), extent(from + (1 << 20), 30 << 20, 2.0)];
        assert_eq!(resident_in(pid, &resident, &extents), 2.0 * present as f64);
        assert_eq!(resident_in(pid, &resident, &extents[..1]), 0.0);
        let other = Resident { range: 4096..8192, bytes: 4096 };
        assert_eq!(resident_in(pid, &other, &extents), 0.0);
        assert_eq!(resident_in(pid, &other, &[extent(4096, 4096, 1.0)]), 4096.0);
    }
}
