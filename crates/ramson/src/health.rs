//! `--view health`: what recording cost the program, what it lost, and at which interval it samples.

use crate::rss::Resident;
use crate::source::Source;
use crate::text;
use ramson_format::{Health, flags, state};
use ramson_profile::format::{format_bytes, format_objects, format_share};
use ramson_reader::Header;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;

/// What ramson may take of the program's memory: so much, and this part of its heap.
const BOUND_BYTES: f64 = (4 << 20) as f64;
const BOUND_SHARE: f64 = 0.0005;

/// What is lost, by cause, and what to do about it.
pub const DROPS: [(Health, &str); 6] = [
    (
        Health::DroppedLive,
        "samples are not among the live ones: the live table was full. Use a larger --interval or --max-file",
    ),
    (
        Health::DroppedStacks,
        "samples have no stack: the stack table was full. Use a larger --max-file",
    ),
    (
        Health::DroppedWalks,
        "samples have no stack: too many threads sampled at once, a signal stack had no room for it, or the profile was just being made",
    ),
    (
        Health::DroppedExtents,
        "mappings by the program are not among the live ones: a table was full",
    ),
    (Health::DroppedMappings, "mappings were not recorded: a table was full"),
    (Health::GrowFailures, "times the file system refused more space for the profile"),
];

/// The interval in force, and the one that was asked for where it is another.
pub fn interval(header: &Header) -> String {
    let present = format_bytes(header.interval_bytes as f64);
    if !is_raised(header) {
        return present;
    }
    let configured = format_bytes(header.configured_interval_bytes as f64);
    format!("{configured} (raised to {present} by the overhead bound)")
}

fn is_raised(header: &Header) -> bool {
    header.configured_interval_bytes != 0
        && header.interval_bytes > header.configured_interval_bytes
}

/// The table, without a heading.
pub fn table(out: &mut String, source: &Source, live: f64, resident: Option<&Resident>) {
    let header = &source.snapshot.header;
    let count = |kind: Health| header.health[kind as usize];
    let objects = |kind: Health| format_objects(count(kind) as f64);
    let mut row = |name: &str, value: String| {
        let line = format!("{name:<13}{value}");
        let _ = writeln!(out, "{}", text::cut(line.trim_end(), text::columns()));
    };
    row("samples", format!("{}, {} freed since", objects(Health::Samples), objects(Health::Frees)));
    row("time", time(header, cpu_ns(source)));
    row("interval", format!("{}{}", interval(header), changes(header)));
    row(
        "walks",
        format!(
            "{} cut at {} frames, {} ended early, {} on other stacks than the thread's",
            objects(Health::CutWalks),
            ramson_format::MAX_DEPTH,
            objects(Health::FailedWalks),
            objects(Health::ForeignWalks),
        ),
    );
    let lost: Vec<_> = DROPS.iter().filter(|(kind, _)| count(*kind) > 0).collect();
    if lost.is_empty() {
        row("lost", "nothing".into());
    }
    for (kind, what) in lost {
        row("lost", format!("{} {what}", objects(*kind)));
    }
    if source.snapshot.max_freed > 0 {
        row(
            "frees",
            format!(
                "the latest {} are remembered, of at most {}; {} without the stack of the free, {} found no space",
                format_objects(source.snapshot.freed.len() as f64),
                format_objects(source.snapshot.max_freed as f64),
                objects(Health::UnknownFreeStacks),
                objects(Health::DroppedFrees),
            ),
        );
    }
    row("own memory", memory(header, live, resident));
    row(
        "profile",
        format!("{} on disk, {}", format_bytes(header.committed_bytes as f64), source.origin),
    );
}

/// As much as is known about the time in slow paths.
fn time(header: &Header, cpu_ns: Option<u64>) -> String {
    let Some(slow_ns) = header.slow_path_ns() else {
        let why = if header.flags & flags::UNSTEADY_CYCLES != 0 {
            "the CPU's cycle counter is not steady (changing frequency, or a virtual machine that was moved), or the program forbids it"
        } else {
            "no sample came after the first 0.1 s"
        };
        return format!("unknown: {why}");
    };
    let samples = header.health[Health::Samples as usize].max(1) as f64;
    let mut text = format!("{}, {} a sample with its free", span(slow_ns), span(slow_ns / samples));
    if let Some(share) = cpu_ns.and_then(|cpu_ns| header.overhead(cpu_ns)) {
        let _ = write!(text, "; {} of the CPU time", percent(share));
    }
    match header.max_overhead_ppm {
        0 => text + ", no bound",
        ppm => format!("{text}, bound {}", percent(ppm as f64 / 1e6)),
    }
}

/// The process's CPU time: until now, or at its exit. Of one that was killed nobody knows.
fn cpu_ns(source: &Source) -> Option<u64> {
    let header = &source.snapshot.header;
    match source.running {
        Some(pid) => cpu_ns_of(pid),
        None if header.state == state::EXITED => Some(header.cpu_ns).filter(|&ns| ns > 0),
        None => None,
    }
}

/// From user and system time in /proc/PID/stat, in clock ticks. The second field is a name that may contain anything.
fn cpu_ns_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // ")" ends field 2; these are 14 and 15.
    let mut times = stat.rsplit_once(") ")?.1.split(' ').skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "0 %".into(),
        share if share < 1e-5 => "< 0.001 %".into(),
        share if share < 1e-3 => format!("{:.3} %", share * 100.0),
        share => format_share(share),
    }
}

/// Nanoseconds with three digits at least.
fn span(ns: f64) -> String {
    match ns {
        ns if ns < 1e4 => format!("{ns:.0} ns"),
        ns if ns < 1e7 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e10 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} s", ns / 1e9),
    }
}

fn changes(header: &Header) -> String {
    match header.interval_changes {
        0 => ", never changed".into(),
        1 => ", changed once".into(),
        times => format!(", changed {times} times"),
    }
}

/// Resident bytes where there is a process to ask, else what can have been resident at most.
fn memory(header: &Header, live: f64, resident: Option<&Resident>) -> String {
    let bound = format_bytes(bound_bytes(live));
    let most = format_bytes(most_bytes(header) as f64);
    match resident {
        Some(resident) => {
            format!(
                "{} resident of {most} taken; bound {bound}",
                format_bytes(resident.ramson as f64)
            )
        }
        None => format!("{most} taken at most; bound of what is resident {bound}"),
    }
}

fn bound_bytes(live: f64) -> f64 {
    BOUND_BYTES + BOUND_SHARE * live
}

/// The profile file, tables and scratches, and the pages of the filter; only touched parts of them are resident.
fn most_bytes(header: &Header) -> u64 {
    let beside = [Health::OwnBytes, Health::FilterBytes];
    beside
        .iter()
        .fold(header.committed_bytes, |sum, &kind| sum.saturating_add(header.health[kind as usize]))
}

/// The same as an object: `recording` of the report.
pub fn json(source: &Source, live: f64, resident: Option<&Resident>) -> Value {
    let (header, cpu_ns) = (&source.snapshot.header, cpu_ns(source));
    json!({
        "interval_bytes": header.interval_bytes,
        "configured_interval_bytes": header.configured_interval_bytes,
        "interval_changes": header.interval_changes,
        "max_overhead_ppm": header.max_overhead_ppm,
        "slow_path_ns": header.slow_path_ns().map(|ns| ns.round() as u64),
        "cpu_ns": cpu_ns,
        "overhead_ppm": cpu_ns.and_then(|ns| header.overhead(ns)).map(|share| share * 1e6),
        "own_resident_bytes": resident.map(|resident| resident.ramson),
        "own_most_bytes": most_bytes(header),
        "own_bound_bytes": bound_bytes(live) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            health: vec![0; ramson_format::HEALTH.len()],
            interval_bytes: 512 << 10,
            configured_interval_bytes: 512 << 10,
            ..Header::default()
        }
    }

    #[test]
    fn an_interval_that_was_raised_says_so() {
        assert_eq!(interval(&header()), "512 KiB");
        let raised = Header { interval_bytes: 4 << 20, ..header() };
        assert_eq!(interval(&raised), "512 KiB (raised to 4.00 MiB by the overhead bound)");
        // Written by a library that knew no configured interval.
        let old = Header { configured_interval_bytes: 0, ..header() };
        assert_eq!(interval(&old), "512 KiB");
    }

    #[test]
    fn time_that_is_not_known_is_not_zero() {
        assert!(time(&header(), None).starts_with("unknown: no sample"));
        let unsteady = Header { flags: flags::UNSTEADY_CYCLES, ..header() };
        assert!(time(&unsteady, None).contains("not steady"), "{}", time(&unsteady, None));
    }

    #[test]
    fn the_cpu_time_of_this_process_is_that_of_its_clock() {
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {}
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let clock_ns = clock.tv_sec as f64 * 1e9 + clock.tv_nsec as f64;
        let ns = cpu_ns_of(std::process::id()).unwrap() as f64;
        // Ticks are 10 ms; other tests use the CPU between the two readings.
        assert!((ns - clock_ns).abs() < 1e8, "{ns} {clock_ns}");
    }

    #[test]
    fn small_shares_are_not_rounded_to_nothing() {
        let shares = [0.0, 1e-7, 0.00012, 0.0071, 0.25];
        assert_eq!(shares.map(percent), ["0 %", "< 0.001 %", "0.012 %", "0.71 %", "25.0 %"]);
    }
}
