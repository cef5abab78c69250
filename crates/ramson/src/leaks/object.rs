//! The suspects as one JSON object. Version 1 and the rules for numbers are those of `ramson_encode::json`.
//!
//! `{"ramson", "kind": "leaks", "name", "pid", "is_running", "interval_bytes", "resident" (null: not readable), "live", "stacks" (how many
//! were judged and not hidden), "suppressed", "known", "suspects": […], "defects"}`. A suspect: `{"verdict": "growing" | "plateau" |
//! "start-up" | "churn" | "not-enough-data", "reason", "inuse_space", "inuse_objects", "samples" (raw), "first_seen_ns" (that long
//! ago), "age_p50_ns", "age_oldest_ns", "growth": {"bytes_per_hour", "window_ns", "is_measured", "is_significant"} (null: observed
//! for too short a time; where it is not measured it is what the ages of the kept samples say), "persistence": {"horizon_ns", "settled_ns",
//! "kept", "freed", "kept_share_at_least", "is_steady"} (null like growth), "survival": {"never_freed", "interval_95": [least,
//! most], "curve": [{"age_ns", "share"}]}, "frames": [{"function", "file", "line"}]}`, frames leaf first. Shares are 0 to 1.

use super::{Findings, Moment, Suspect};
use crate::rss::Resident;
use ramson_leaks::{Growth, Persistence, Survival};
use ramson_profile::{Estimate, FrameName};
use serde_json::{Value, json};

pub fn object(
    moment: &Moment,
    findings: &Findings,
    top: usize,
    live: Estimate,
    resident: Option<&Resident>,
) -> Value {
    let header = &moment.source.snapshot.header;
    let most = if top == 0 { usize::MAX } else { top };
    json!({
        "ramson": 1,
        "kind": "leaks",
        "name": moment.source.name(),
        "pid": header.pid,
        "is_running": moment.source.running.is_some(),
        "interval_bytes": header.interval_bytes,
        "resident": resident.map(|resident| resident.json(live)),
        "live": estimate(live),
        "stacks": findings.suspects.len(),
        "suppressed": findings.suppressed,
        "known": findings.known,
        "suspects": findings.suspects.iter().take(most).map(suspect).collect::<Vec<_>>(),
        "defects": moment.source.snapshot.defects.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn suspect(suspect: &Suspect) -> Value {
    let (finding, history) = (&suspect.finding, &suspect.stack.history);
    json!({
        "verdict": finding.verdict.name(),
        "reason": finding.reason,
        "inuse_space": estimate(finding.inuse_space),
        "inuse_objects": estimate(finding.inuse_objects),
        "samples": finding.samples,
        "first_seen_ns": history.observed_ns(),
        "age_p50_ns": finding.ages.map(|ages| ages.p50_ns),
        "age_oldest_ns": finding.ages.map(|ages| ages.oldest_ns),
        "growth": finding.growth.as_ref().map(growth),
        "persistence": finding.persistence.as_ref().map(persistence),
        "survival": finding.survival.as_ref().map(survival),
        "frames": suspect.stack.frames.iter().map(frame).collect::<Vec<_>>(),
    })
}

fn growth(growth: &Growth) -> Value {
    json!({
        "bytes_per_hour": estimate(growth.per_hour),
        "window_ns": growth.window_ns,
        "is_measured": growth.is_measured,
        "is_significant": growth.is_significant,
    })
}

fn persistence(seen: &Persistence) -> Value {
    json!({
        "horizon_ns": seen.horizon_ns,
        "settled_ns": seen.settled_ns,
        "kept": seen.kept,
        "freed": seen.freed,
        "kept_share_at_least": seen.kept_share_at_least,
        "is_steady": seen.is_steady,
    })
}

fn survival(survival: &Survival) -> Value {
    let points = survival.points.iter();
    json!({
        "never_freed": survival.never_freed,
        "interval_95": [survival.interval.0, survival.interval.1],
        "curve": points
            .map(|point| json!({ "age_ns": point.age_ns, "share": point.share }))
            .collect::<Vec<_>>(),
    })
}

fn frame((frame, line): &(FrameName, u32)) -> Value {
    json!({ "function": *frame.name, "file": *frame.file, "line": line })
}

fn estimate(estimate: Estimate) -> Value {
    json!({
        "value": estimate.value.round() as i64,
        "half_width_95": estimate.half_width_95().ceil() as i64,
    })
}
