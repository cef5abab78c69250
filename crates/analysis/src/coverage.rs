//! What of a running process's anonymous memory did not come from malloc, and the likely reason.
//!
//! Evidence: an area of anonymous memory in which no live sample lies, and which is no arena of the C library, was not handed out by
//! the allocator that the hooks see.

use ramson_process::{Area, executable};
use ramson_profile::Estimate;
use ramson_profile::format::{format_bytes, format_percent};
use ramson_reader::LiveSample;
use serde::Serialize;

/// Less anonymous memory is not worth a word.
const LEAST_BYTES: u64 = 16 << 20;
/// If the live heap explains this part of the anonymous memory, that is enough.
const ENOUGH: f64 = 0.5;
/// glibc aligns its arenas to this.
const ARENA_BYTES: u64 = 64 << 20;
/// Arenas are where mmap puts things; runtimes that choose addresses for aligned heaps of their own choose lower ones.
const LEAST_MMAP_ADDRESS: u64 = 0x7000_0000_0000;

/// How the anonymous memory divides.
#[derive(Serialize)]
pub struct Coverage {
    anonymous_bytes: u64,
    live_bytes: u64,
    /// In areas of the allocator below the hooks.
    allocator_bytes: u64,
    /// Elsewhere.
    outside_bytes: u64,
    /// What is there, if the live heap explains too little.
    reason: Option<String>,
}

impl Coverage {
    /// Of a running process.
    pub fn of(pid: u32, anonymous: &[Area], samples: &[LiveSample], live: Estimate) -> Self {
        let mut addresses: Vec<u64> = samples.iter().map(|sample| sample.address).collect();
        addresses.sort_unstable();
        let is_allocators = |area: &&Area| {
            let first = addresses.partition_point(|&address| address < area.start);
            area.path == "[heap]"
                || addresses.get(first).is_some_and(|&address| address < area.end)
                || is_arena(area)
        };
        let allocator_bytes = anonymous.iter().filter(is_allocators).map(|area| area.rss).sum();
        let anonymous_bytes: u64 = anonymous.iter().map(|area| area.rss).sum();
        let coverage = Self {
            anonymous_bytes,
            live_bytes: live.value.round() as u64,
            allocator_bytes,
            outside_bytes: anonymous_bytes - allocator_bytes,
            reason: None,
        };
        let seen_at_most = live.value + live.half_width_95();
        let is_enough = seen_at_most >= ENOUGH * anonymous_bytes as f64;
        let reason =
            (anonymous_bytes >= LEAST_BYTES && !is_enough).then(|| coverage.likely_reason(pid));
        Self { reason, ..coverage }
    }

    fn likely_reason(&self, pid: u32) -> String {
        if self.allocator_bytes > self.outside_bytes {
            return format!(
                "{} of the rest lie in the allocator's own areas: most likely freed and kept by it",
                format_bytes(self.allocator_bytes.saturating_sub(self.live_bytes) as f64),
            );
        }
        let outside = format_bytes(self.outside_bytes as f64);
        match executable::heap_owner(pid) {
            Some(owner) => format!("{outside} lie outside malloc: {owner}"),
            None => format!(
                "{outside} lie outside malloc: taken with mmap, by a pool or an allocator of the program's own"
            ),
        }
    }

    /// One line, where the live heap explains too little.
    pub fn line(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(format!(
            "live is {} of the anonymous memory ({} of {}); {reason}",
            format_percent(self.live_bytes as f64, self.anonymous_bytes as f64),
            format_bytes(self.live_bytes as f64),
            format_bytes(self.anonymous_bytes as f64),
        ))
    }
}

fn is_arena(area: &Area) -> bool {
    area.start >= LEAST_MMAP_ADDRESS
        && area.start.is_multiple_of(ARENA_BYTES)
        && area.end - area.start <= ARENA_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn area(start: u64, mib: u64, name: &str) -> Area {
        let (path, rss) = (name.into(), mib * MIB);
        Area { start, end: start + rss, path, rss, ..Area::default() }
    }

    fn coverage(areas: Vec<Area>, address: u64, live_mib: u64) -> Coverage {
        let sample = LiveSample {
            address,
            size: live_mib * MIB,
            inverse_probability: 1.0,
            monotonic_ns: 0,
            stack: 0,
            tid: 0,
        };
        // Of this process: neither a runtime nor an allocator of its own.
        Coverage::of(
            std::process::id(),
            &areas,
            &[sample],
            Estimate::exact((live_mib * MIB) as f64),
        )
    }

    #[test]
    fn a_heap_that_is_seen_needs_no_word() {
        let heap = area(0x5500_0000_0000, 60, "[heap]");
        assert_eq!(coverage(vec![heap], 0x5500_0000_1000, 40).line(), None);
        let small = area(0x5500_0000_0000, 15, "[heap]");
        assert_eq!(coverage(vec![small], 0x5500_0000_1000, 0).line(), None);
    }

    #[test]
    fn memory_without_a_sample_lies_outside_malloc() {
        let areas = vec![area(0x5500_0000_0000, 10, "[heap]"), area(0x7f00_1000_0000, 90, "")];
        let line = coverage(areas, 0x5500_0000_1000, 5).line().unwrap();
        let start = "live is 5.00 % of the anonymous memory (5.00 MiB of 100 MiB); 90.0 MiB lie outside malloc: ";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn arenas_and_areas_with_a_sample_are_the_allocator_s() {
        let areas = vec![area(0x7f00_0000_0000, 50, ""), area(0x7f11_1000_0000, 20, "")];
        let coverage = coverage(areas, 0x7f11_1000_0010, 5);
        assert_eq!((coverage.allocator_bytes, coverage.outside_bytes), (70 * MIB, 0));
        let line = coverage.line().unwrap();
        assert!(line.ends_with("65.0 MiB of the rest lie in the allocator's own areas: most likely freed and kept by it"), "{line}");
    }
}
