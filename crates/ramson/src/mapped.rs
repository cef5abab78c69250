//! What the program mapped itself, beside the heap: how much it is, and how much of it is resident.

use ramson_format::{Kind, flags};
use ramson_profile::format::{format_bytes, format_objects};
use ramson_profile::{Estimate, SampleUnit};
use ramson_reader::{Extent, Follower, LiveSample, Snapshot};
use serde_json::{Value, json};
use std::fs::{self, File};
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

/// Bytes mapped and not unmapped: reservations, or everything else.
fn mapped(snapshot: &Snapshot, is_reserved: bool) -> u64 {
    let extents = snapshot.extents.iter().filter(|extent| extent.is_reserved == is_reserved);
    extents.map(|extent| extent.bytes).sum()
}

/// Leaves of the extents what process `pid`, whose snapshot it is, has mapped now.
pub fn clip(snapshot: &mut Snapshot, pid: u32) {
    if let Some(mapped) = anonymous_ranges(pid).filter(|_| !snapshot.extents.is_empty()) {
        snapshot.clip_extents(&mapped);
    }
}

/// The same for the latest snapshot of a follower.
pub fn clip_latest(follower: &mut Follower, pid: u32) {
    let has_extents = follower.snapshot().is_some_and(|snapshot| !snapshot.extents.is_empty());
    if let Some(mapped) = has_extents.then(|| anonymous_ranges(pid)).flatten() {
        follower.clip_extents(&mapped);
    }
}

/// Where a process has memory that is no file's, by address; `None` where it cannot be read.
fn anonymous_ranges(pid: u32) -> Option<Vec<Range<u64>>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let ranges: Vec<Range<u64>> = maps.lines().filter_map(anonymous_range).collect();
    // Of a process that is gone the kernel tells nothing.
    (!maps.is_empty()).then_some(ranges)
}

/// Of a line of /proc/PID/maps.
fn anonymous_range(line: &str) -> Option<Range<u64>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let inode = fields.nth(3)?;
    let path = fields.next().unwrap_or_default().trim_start();
    // The kernel's names for shared anonymous memory, and for that in huge pages.
    let is_named = ["/dev/zero (deleted)", "/anon_hugepage (deleted)"].contains(&path);
    let number = |text| u64::from_str_radix(text, 16).ok();
    (inode == "0" || is_named).then_some(number(start)?..number(end)?)
}

/// The line of a summary; `None` if the program maps nothing itself.
pub fn line(snapshot: &Snapshot) -> Option<String> {
    if snapshot.extents.is_empty() {
        return None;
    }
    let (in_use, reserved) = (mapped(snapshot, false), mapped(snapshot, true));
    let extents = snapshot.extents.iter().filter(|extent| !extent.is_reserved).count();
    let mut line = format!(
        "mmap {} in {} extents, not part of live: --kind mmap",
        format_bytes(in_use as f64),
        format_objects(extents as f64),
    );
    if reserved > 0 {
        line += &format!("; {} more are only reserved", format_bytes(reserved as f64));
    }
    if !has_holes_cut(snapshot) {
        line += "; holes that the program unmapped inside an extent still count";
    }
    Some(line)
}

/// The same as an object.
pub fn json(snapshot: &Snapshot) -> Value {
    let exactly = |bytes: u64| json!({ "value": bytes, "half_width_95": 0 });
    json!({
        "mapped": exactly(mapped(snapshot, false)),
        "reserved": exactly(mapped(snapshot, true)),
        "without_holes": has_holes_cut(snapshot),
    })
}

/// Whether the kernel was asked, while the process ran, what of its extents is still mapped.
fn has_holes_cut(snapshot: &Snapshot) -> bool {
    snapshot.extents.is_empty() || snapshot.header.flags & flags::CLIPPED != 0
}

/// What the kernel has resident in one of its mappings.
pub struct Resident {
    pub range: Range<u64>,
    pub bytes: u64,
}

/// Resident bytes of the extents in a mapping of process `pid`. `extents` by address.
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
            resident_part(pid, resident, part)
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

    fn extent(start: u64, bytes: u64) -> Extent {
        Extent { start, bytes, stack: 1, tid: 1, ..Extent::default() }
    }

    #[test]
    fn anonymous_memory_is_known_by_its_line() {
        for (line, is_anonymous) in [
            ("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ", true),
            ("7f0000000000-7f0000002000 ---p 00000000 00:00 0 [anon: a name]", true),
            ("7f0000000000-7f0000002000 rw-s 00000000 00:01 2055      /dev/zero (deleted)", true),
            ("7f0000000000-7f0000002000 rw-p 00000000 08:01 7         /var/lib/data", false),
            ("7f0000000000-7f0000002000 rw-s 00000000 00:01 9         /memfd:x (deleted)", false),
        ] {
            let range = 0x7f00_0000_0000..0x7f00_0000_2000;
            assert_eq!(anonymous_range(line), is_anonymous.then_some(range), "{line}");
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
        let extents = [extent(from, 1 << 20), extent(from + (1 << 20), 30 << 20)];
        assert_eq!(resident_in(pid, &resident, &extents), present as f64);
        assert_eq!(resident_in(pid, &resident, &extents[..1]), 0.0);
        let other = Resident { range: 4096..8192, bytes: 4096 };
        assert_eq!(resident_in(pid, &other, &extents), 0.0);
        assert_eq!(resident_in(pid, &other, &[extent(4096, 4096)]), 4096.0);
    }
}
