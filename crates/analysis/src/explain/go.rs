//! A Go program's memory in plain words: what is live, and when the rest is collected.

use super::finding::Finding;
use super::words::size;
use ramson_process::clock::unix_ns;
use ramson_process::go_memory::Collector;
use ramson_profile::format::format_duration;

/// Returns what is said of a part of a Go program's memory, behind its bytes.
pub fn phrase(finding: &Finding, cause: &str) -> Option<String> {
    let collector = finding.go.as_ref()?;
    Some(match cause {
        "go_live" => format!(
            "is Go objects that were live when the last collection ended, {} ago (ramson report PID)",
            format_duration(unix_ns().saturating_sub(collector.last_unix_ns))
        ),
        "go_not_collected" => {
            format!(
                "is Go objects that were allocated since the last collection, or are dead: {}",
                pace(collector)
            )
        }
        _ => return None,
    })
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
