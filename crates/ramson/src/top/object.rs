//! The picture as one JSON object; version 1 and the rules for numbers are those of `ramson_encode::json`, the fields in docs/top.md.

use super::TopOptions;
use super::row::Row;
use super::sums::Sums;
use super::view::Watch;
use crate::mapped;
use crate::own;
use ramson_format::Health;
use ramson_profile::Estimate;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn object(watch: &Watch, options: &TopOptions) -> Value {
    let (watched, model) = (&watch.watched, &watch.model);
    let snapshot = watched.snapshot();
    let live_heap = mapped::live_heap(snapshot);
    let rows = model.rows.iter().take(options.most_rows());
    json!({
        "ramson": 1,
        "kind": "top",
        "time_unix_ns": now_unix_ns(),
        "pid": watched.pid,
        "name": watched.source.name(),
        "is_running": watched.end.is_none(),
        "end": watched.end,
        "interval_bytes": snapshot.header.interval_bytes,
        "samples": snapshot.header.health[Health::Samples as usize],
        "resident": watched.resident.as_ref().map(|resident| resident.json(live_heap)),
        "since_mark_ns": model.moments.since_mark_ns(),
        "rate_window_ns": model.moments.rate_window_ns(),
        "total": sums(&model.total),
        "view": model.choice.view.name(),
        "rows": rows.map(row).collect::<Vec<_>>(),
        "defects": own::what_is_missing(&watched.source),
        "missing_symbols": model.shape.missing_symbols.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

pub fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64)
}

fn row(row: &Row) -> Value {
    let mut object = row.sums.as_ref().map_or(json!({}), sums);
    object["name"] = json!(*row.name);
    object["file"] = json!(*row.file);
    object["line"] = json!(row.line);
    object
}

/// `null` for what is not known.
pub fn sums(sums: &Sums) -> Value {
    let rate = |per_s: f64| (!per_s.is_nan()).then_some(per_s);
    json!({
        "live": estimate(sums.live),
        "live_objects": estimate(sums.live_objects),
        "change": estimate(sums.change()),
        "alloc_objects_per_s": rate(sums.alloc_objects_per_s),
        "alloc_bytes_per_s": rate(sums.alloc_bytes_per_s),
        "freed_bytes_per_s": rate(sums.freed_bytes_per_s),
        "mean_age_ns": sums.mean_age_ns(),
        "oldest_ns": (sums.oldest_ns > 0).then_some(sums.oldest_ns),
    })
}

fn estimate(estimate: Estimate) -> Value {
    json!({
        "value": estimate.value.round() as i64,
        "half_width_95": estimate.half_width_95().ceil() as i64,
    })
}
