//! A Go program's memory in plain words: what is live, and when the rest is collected.

use super::finding::Finding;
use super::words::size;
use crate::goroutines::Place;
use ramson_process::Part;
use ramson_process::clock::unix_ns;
use ramson_process::go_memory::Collector;
use ramson_profile::format::{format_duration, format_objects};

/// Returns what is said of a part of a Go program's memory, behind its bytes.
pub fn phrase(finding: &Finding, cause: &str) -> Option<String> {
    let collector = finding.go.as_ref()?;
    Some(match cause {
        "go_live" => format!(
            "is Go objects that were live when the last collection ended, {} ago{}",
            format_duration(unix_ns().saturating_sub(collector.last_unix_ns)),
            if collector.interval > 0 { " (ramson report PID)" } else { "" }
        ),
        "go_free" => {
            let goal = collector.goal.filter(|_| excess(finding, collector) == 0);
            match goal {
                Some(goal) => format!(
                    "is free in Go's arenas: the heap grows into it again, up to its goal of {}",
                    size(goal)
                ),
                None if collector.goal.is_none() => {
                    "is free in Go's arenas: the runtime returns it bit by bit".into()
                }
                None => "is free in Go's arenas: the runtime returns it bit by bit, until the heap is at 1.1 times its goal".into(),
            }
        }
        "go_not_collected" => {
            format!(
                "is Go objects that were allocated since the last collection, or are dead: {}",
                pace(collector)
            )
        }
        "go_stacks" => {
            let all = finding.goroutines.as_ref()?;
            let Place { count, longest_ns, .. } = *all.places.first()?;
            let longest = longest_ns.map_or(String::new(), |ns| {
                format!("; the first of these for {}", format_duration(ns))
            });
            let [all_of_them, count] = [all.count, count].map(|it| format_objects(it as f64));
            let phrase = all.places[0].phrase();
            format!("is stacks of {all_of_them} goroutines: {count} {phrase}{longest}")
        }
        _ => return None,
    })
}

/// Free bytes that the heap does not grow into before its next collection ends. The runtime keeps a tenth more than the goal.
pub fn excess(finding: &Finding, collector: &Collector) -> u64 {
    const KEPT: f64 = 1.1;
    let heap = [Part::GoLive, Part::GoUncollected, Part::GoUnused, Part::GoFree];
    let heap: u64 = heap.iter().map(|&part| finding.part(part)).sum();
    let kept = collector.goal.map_or(0, |goal| (goal as f64 * KEPT) as u64);
    heap.saturating_sub(kept).min(finding.part(Part::GoFree))
}

/// When the next collection comes.
fn pace(collector: &Collector) -> String {
    let Collector { percent, limit, goal, .. } = *collector;
    let limit = limit.map(size);
    match (goal.map(size), limit) {
        (None, None) => "GOGC is off and there is no GOMEMLIMIT, so nothing collects them".into(),
        (None, Some(limit)) => format!(
            "GOGC is off, so they are collected only when all of Go's memory comes near GOMEMLIMIT ({limit})"
        ),
        (Some(goal), limit) => {
            let limit = limit
                .map_or(String::new(), |limit| format!(", if GOMEMLIMIT ({limit}) allows that"));
            format!("GOGC={percent} lets the heap grow to {goal} before a collection ends{limit}")
        }
    }
}
