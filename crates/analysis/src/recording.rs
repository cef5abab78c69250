//! Cost of recording to the program, and what the recording lost.

use crate::attachment;
use crate::early_ends;
use crate::inside::{self, AllocatorInside};
use crate::interval::Intervals;
use ramson_format::{HEALTH, Health, flags, state};
use ramson_process::stat;
use ramson_profile::format::format_objects;
use ramson_reader::Header;
use ramson_source::Recording;
use serde::Serialize;
use std::collections::BTreeMap;

/// The goal for ramson's own memory in the program, which nothing enforces: this much, and this part of the program's heap.
const BOUND_BYTES: f64 = (4 << 20) as f64;
const BOUND_SHARE: f64 = 0.0005;

/// Losses by cause, and what to do about them.
const DROPS: [(Health, &str); 6] = [
    (
        Health::DroppedLive,
        "samples are missing from the live ones: the live table was full. Use a larger --interval or --max-file",
    ),
    (
        Health::DroppedStacks,
        "samples have no stack: the stack table was full. Use a larger --max-file",
    ),
    (
        Health::DroppedWalks,
        "samples have no stack: too many threads sampled at once, a signal stack was too small, or the profile was still being created",
    ),
    (
        Health::DroppedExtents,
        "mappings by the program are missing from the live ones: a table was full",
    ),
    (Health::DroppedMappings, "mappings were not recorded: a table was full"),
    (Health::GrowFailures, "times the profile could not grow: its file system was full"),
];

/// How much was lost, why, and what to do about it.
pub fn lost(health: impl Fn(Health) -> u64) -> Vec<(u64, &'static str)> {
    let is_disk_full = health(Health::GrowFailures) > 0;
    // Larger tables need more space, not less.
    let why = |what: &'static str| {
        if is_disk_full { what.split(". Use").next().unwrap_or(what) } else { what }
    };
    let all = DROPS.iter().map(|&(kind, what)| (health(kind), why(what)));
    all.filter(|&(count, _)| count > 0).collect()
}

/// Cost of recording.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Cost {
    /// Sampling interval in force.
    pub interval_bytes: u64,
    /// Sampling interval as asked for; 0: not known.
    pub configured_interval_bytes: u64,
    /// How often the overhead bound moved the interval.
    pub interval_changes: u64,
    /// The largest that a live sample was taken under; 0: there is none that tells.
    pub most_interval_bytes: u64,
    /// By how much the ± of the live bytes is wider than at the interval asked for: 1 is twice as wide.
    pub widening: f64,
    /// Bound of the CPU time in slow paths; 0: none.
    pub max_overhead_ppm: u64,
    /// Time in slow paths; `None`: not known.
    pub slow_path_ns: Option<u64>,
    /// The processor's counter of cycles cannot be used for it; else no sample came after the first 0.1 s.
    #[serde(skip)]
    pub is_unsteady: bool,
    /// CPU time of the process; `None`: not known.
    pub cpu_ns: Option<u64>,
    /// `slow_path_ns` of `cpu_ns`.
    pub overhead_ppm: Option<f64>,
    /// ramson's own memory; `None`: the process does not run.
    pub own_resident_bytes: Option<u64>,
    /// The address space that it has: the most that can have been resident.
    pub own_most_bytes: u64,
    /// The goal for ramson's resident bytes at the default interval. Nothing enforces it.
    pub own_bound_bytes: u64,
    /// Frees that are remembered, and how many can be.
    #[serde(skip)]
    pub frees: usize,
    /// See `frees`.
    #[serde(skip)]
    pub max_frees: u64,
    /// The file, and its bytes on disk.
    #[serde(skip)]
    pub profile: String,
    /// See `profile`.
    #[serde(skip)]
    pub profile_bytes: u64,
}

impl Cost {
    /// Returns the cost of a recording with `live_bytes` live bytes; `resident_bytes` are ramson's.
    pub fn of(
        recording: &Recording,
        intervals: Intervals,
        live_bytes: f64,
        resident_bytes: Option<u64>,
    ) -> Self {
        let header = &recording.snapshot.header;
        let cpu_ns = cpu_ns(recording);
        // The profile file, tables and scratches, and the pages of the filter; only touched parts of them are resident.
        let beside =
            [Health::OwnBytes, Health::FilterBytes].map(|kind| header.health[kind as usize]);
        Self {
            interval_bytes: intervals.present_bytes,
            configured_interval_bytes: intervals.configured_bytes,
            interval_changes: header.interval_changes.into(),
            most_interval_bytes: intervals.most_bytes,
            widening: intervals.widening,
            max_overhead_ppm: header.max_overhead_ppm.into(),
            slow_path_ns: header.slow_path_ns().map(|ns| ns.round() as u64),
            is_unsteady: header.flags & flags::UNSTEADY_CYCLES != 0,
            cpu_ns,
            overhead_ppm: cpu_ns.and_then(|ns| header.overhead(ns)).map(|share| share * 1e6),
            own_resident_bytes: resident_bytes,
            own_most_bytes: beside.into_iter().fold(header.committed_bytes, u64::saturating_add),
            own_bound_bytes: (BOUND_BYTES + BOUND_SHARE * live_bytes) as u64,
            frees: recording.snapshot.freed.len(),
            max_frees: recording.snapshot.max_freed,
            profile: recording.origin.clone(),
            profile_bytes: header.committed_bytes,
        }
    }
}

/// FORMAT.md's health counters by their names.
pub fn health(header: &Header) -> BTreeMap<&'static str, u64> {
    HEALTH.iter().map(|&(kind, name)| (name, header.health[kind as usize])).collect()
}

/// Lists what was dropped, cut or damaged. Every report shows these lines.
pub fn what_is_missing(recording: &Recording) -> Vec<String> {
    let health = &recording.snapshot.header.health;
    let drops = lost(|kind| health[kind as usize]).into_iter();
    let drops = drops.map(|(count, what)| format!("{} {what}", format_objects(count as f64)));
    let attachment = attachment::what_is_missing(recording).into_iter();
    let defects = recording.snapshot.defects.iter().map(ToString::to_string);
    let early_ends = early_ends::line(&recording.snapshot);
    let inside = inside::of(&recording.snapshot);
    let missed = inside.iter().filter_map(AllocatorInside::defect);
    attachment.chain(drops).chain(early_ends).chain(missed).chain(defects).collect()
}

/// The process's CPU time: until now, or at its exit. Unknown if it was killed.
fn cpu_ns(recording: &Recording) -> Option<u64> {
    let header = &recording.snapshot.header;
    match recording.running {
        Some(pid) => cpu_ns_of(pid),
        None if header.state == state::EXITED => Some(header.cpu_ns).filter(|&ns| ns > 0),
        None => None,
    }
}

/// User and system time, which the kernel counts in clock ticks.
fn cpu_ns_of(pid: u32) -> Option<u64> {
    let ticks = stat::number(pid, 14)? + stat::number(pid, 15)?;
    Some(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_agrees_with_process_clock() {
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {}
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let clock_ns = clock.tv_sec as f64 * 1e9 + clock.tv_nsec as f64;
        let ns = cpu_ns_of(std::process::id()).unwrap() as f64;
        // Ticks are 10 ms; other tests use the CPU between the two readings.
        assert!((ns - clock_ns).abs() < 1e8, "{ns} {clock_ns}");
    }
}
