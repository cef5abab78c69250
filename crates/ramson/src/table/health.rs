//! `--view health`: what recording cost the program, what it lost, and at which interval it samples.

use super::push_prose;
use ramson_analysis::inside::AllocatorInside;
use ramson_analysis::recording::{Cost, lost};
use ramson_analysis::summary::Summary;
use ramson_format::{HEALTH, Health};
use ramson_profile::format::{format_bytes, format_objects, format_share};
use std::fmt::Write;

/// With fewer samples a second the overhead target does not raise the interval (libramson's governor).
const FREE_PER_SECOND: f64 = 300.0;

pub fn table(out: &mut String, summary: &Summary) {
    let cost = &summary.recording;
    let count = |kind: Health| counted(summary, kind);
    let objects = |kind: Health| format_objects(count(kind) as f64);
    let mut row = |name: &str, value: String| {
        push_prose(out, &format!("{name:<13}"), &value);
    };
    row("samples", format!("{}, {} freed since", objects(Health::Samples), objects(Health::Frees)));
    let per_second = count(Health::Samples) as f64 / (summary.profiled_ns.max(1) as f64 / 1e9);
    row("time", time(cost, (count(Health::Samples), count(Health::Extents)), per_second));
    row("interval", format!("{}{}", summary.interval, changes(cost.interval_changes)));
    row(
        "walks",
        format!(
            "{} cut at {} frames, {} ended early, {} on alternate stacks",
            objects(Health::CutWalks),
            ramson_format::MAX_DEPTH,
            objects(Health::FailedWalks),
            objects(Health::ForeignWalks),
        ),
    );
    let all_lost = lost(count);
    if all_lost.is_empty() {
        row("lost", "nothing".into());
    }
    for (number, what) in all_lost {
        row("lost", format!("{} {what}", format_objects(number as f64)));
    }
    if cost.max_frees > 0 {
        row(
            "frees",
            format!(
                "the latest {} are remembered, of at most {}; {} without the stack of the free, {} found no space",
                format_objects(cost.frees as f64),
                format_objects(cost.max_frees as f64),
                objects(Health::UnknownFreeStacks),
                objects(Health::DroppedFrees),
            ),
        );
    }
    for inside in &summary.allocators_inside {
        row("inside", allocator(inside));
    }
    if let Some(none) = summary.none_inside {
        row("inside", none.into());
    }
    let own = (cost.own_resident_bytes, cost.own_most_bytes, cost.own_bound_bytes);
    row("own memory", memory(own));
    row(
        "profile",
        format!("{} on disk, {}", format_bytes(cost.profile_bytes as f64), cost.profile),
    );
}

fn counted(summary: &Summary, kind: Health) -> u64 {
    let name = HEALTH.iter().find(|(of, _)| *of as usize == kind as usize).map(|(_, name)| *name);
    name.and_then(|name| summary.health.get(name)).copied().unwrap_or(0)
}

fn time(cost: &Cost, (samples, extents): (u64, u64), per_second: f64) -> String {
    let Some(slow_ns) = cost.slow_path_ns else {
        let why = if cost.is_unsteady {
            "the CPU's cycle counter is not steady (changing frequency, or a virtual machine that was moved), or the program forbids it"
        } else {
            "no sample came after the first 0.1 s"
        };
        return format!("unknown: {why}");
    };
    let slow_ns = slow_ns as f64;
    let each = slow_ns / (samples + extents).max(1) as f64;
    let kind = if extents == 0 { "for a sample with its free" } else { "for a sample or mapping" };
    let mut text = format!("{}, {} {kind}", span(slow_ns), span(each));
    if let Some(ppm) = cost.overhead_ppm {
        let _ = write!(text, "; {} of the CPU time", percent(ppm / 1e6));
    }
    if cost.max_overhead_ppm == 0 {
        return text + ", no target";
    }
    let _ = write!(text, ", target {}", percent(cost.max_overhead_ppm as f64 / 1e6));
    // docs/internals/sampling.md, "An interval that changes".
    if per_second < FREE_PER_SECOND {
        let _ = write!(
            text,
            ", which has no effect below {FREE_PER_SECOND} samples a second ({per_second:.0} on average here)"
        );
    } else if cost.overhead_ppm.is_some_and(|ppm| ppm > cost.max_overhead_ppm as f64) {
        text += ". The target does not count costs that a larger interval would not save: the first sample of \
                 each stack, creating the profile, the program's own mappings, and the first 300 samples a second";
    }
    text
}

/// An allocator inside an object, and its functions.
fn allocator(inside: &AllocatorInside) -> String {
    let mut text = format!("{}: ", inside.full_name());
    if inside.hooked.is_empty() {
        text += "not recorded";
    } else {
        let _ = write!(
            text,
            "{} samples of {}",
            format_objects(inside.samples as f64),
            inside.hooked.join(", "),
        );
    }
    for refused in &inside.refused {
        let _ = write!(text, "; not {}: {}", refused.function, refused.reason);
    }
    if inside.missed_frees > 0 {
        let _ = write!(text, "; {} frees were missed", format_objects(inside.missed_frees as f64));
    }
    text
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "0%".into(),
        share if share < 1e-5 => "< 0.001%".into(),
        share if share < 1e-3 => format!("{:.3}%", share * 100.0),
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

fn changes(count: u64) -> String {
    match count {
        0 => ", never changed".into(),
        1 => ", changed once".into(),
        times => format!(", changed {times} times"),
    }
}

/// Resident bytes where there is a process to ask, and the address space, which is no memory before it is touched.
fn memory((resident, most, goal): (Option<u64>, u64, u64)) -> String {
    let [most, goal] = [most, goal].map(|bytes| format_bytes(bytes as f64));
    let resident = resident.map_or("how much was resident is not known".into(), |bytes| {
        format!("{} resident", format_bytes(bytes as f64))
    });
    format!("{resident} (goal: at most {goal}), in {most} of address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goal_is_of_resident_bytes() {
        let most = 40 << 20;
        let goal = 4 << 20;
        let ends = "(goal: at most 4.00 MiB), in 40.0 MiB of address space";
        assert_eq!(memory((Some(3 << 20), most, goal)), format!("3.00 MiB resident {ends}"));
        let unknown = format!("how much was resident is not known {ends}");
        assert_eq!(memory((None, most, goal)), unknown);
    }

    #[test]
    fn small_shares_stay_visible() {
        let shares = [0.0, 1e-7, 0.00012, 0.0071, 0.25];
        assert_eq!(shares.map(percent), ["0%", "< 0.001%", "0.012%", "0.71%", "25.0%"]);
    }
}
