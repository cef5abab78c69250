//! The finding as one versioned object.

use super::advice::{Advice, Saving};
use super::ask::Asked;
use super::examine::Finding;
use super::pins::{Pins, Site};
use ramson_process::Part;
use ramson_process::allocators::Found;
use ramson_process::glibc::{Arena, Books, Cell, Kept, Space};
use ramson_profile::Estimate;
use serde_json::{Map, Value, json};

pub fn object(finding: &Finding, advice: &[Advice]) -> Value {
    let explained = &finding.explained;
    let parts: Map<String, Value> = Part::ALL
        .iter()
        .map(|&(part, name)| (name.to_owned(), json!(explained.part(part))))
        .collect();
    let found = |found: &Found| json!({ "name": found.name, "origin": found.origin });
    let settings = finding.allocators.settings.iter();
    let settings: Map<String, Value> =
        settings.map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "ramson": 1,
        "kind": "doctor",
        "pid": finding.pid,
        "name": finding.name,
        "rss": explained.rss,
        "parts": parts,
        "beside": {
            "page_tables": finding.page_tables,
            "swap": explained.swap,
            "hugetlb": explained.hugetlb,
            "anonymous_huge": explained.anonymous_huge,
        },
        "live_by_profile": finding.live.map(|live| json!({
            "value": live.value.round() as i64,
            "half_width_95": live.half_width_95().round() as i64,
        })),
        "limit": finding.limit.as_ref().map(|limit| json!({
            "limit_bytes": limit.limit_bytes,
            "used_bytes": limit.used_bytes,
            "group": limit.group,
        })),
        "allocators": {
            "glibc": finding.allocators.glibc.as_ref().map(found),
            "other": finding.allocators.other.as_ref().map(|(_, other)| found(other)),
            "environment": settings,
        },
        "books": finding.books.as_ref().ok().map(books),
        "books_missing": finding.books.as_ref().err().map(ToString::to_string),
        "asked": finding.asked.as_ref().and_then(|asked| asked.as_ref().ok()).map(asked),
        "asked_missing": finding.asked.as_ref().and_then(|asked| asked.as_ref().err()),
        "pins": finding.pins.as_ref().map(pins),
        "advice": advice.iter().map(one_advice).collect::<Vec<_>>(),
    })
}

fn asked(asked: &Asked) -> Value {
    let figures = asked.figures.iter();
    let figures: Map<String, Value> =
        figures.map(|&(name, bytes)| (name.to_owned(), json!(bytes))).collect();
    json!({
        "function": asked.function,
        "figures": figures,
        "tid": asked.called.tid,
        "stopped_ms": asked.called.stopped.as_micros() as f64 / 1e3,
    })
}

fn books(books: &Books) -> Value {
    let parameters = &books.parameters;
    json!({
        "live_bytes": books.live_bytes(),
        "not_walked_share": books.not_walked_share(),
        "is_surveyed": books.is_surveyed(),
        "half_width_95": books.half_width_95_bytes().round() as u64,
        "mapped_chunks": space(&books.mapped),
        "parameters": {
            "mmap_threshold_bytes": parameters.mmap_threshold_bytes,
            "trim_threshold_bytes": parameters.trim_threshold_bytes,
            "has_dynamic_thresholds": parameters.has_dynamic_thresholds,
            "top_pad_bytes": parameters.top_pad_bytes,
            "arena_max": parameters.arena_max,
            "mapped_chunks": parameters.mapped_chunks,
            "mapped_bytes": parameters.mapped_bytes,
            "tcache_count": parameters.tcache_count,
            "tcache_max_bytes": parameters.tcache_max_bytes,
            "huge_page_bytes": parameters.huge_page_bytes,
        },
        "arenas": books.arenas.iter().map(arena).collect::<Vec<_>>(),
        "map": books.map.cells.iter().map(cell).collect::<Vec<_>>(),
    })
}

fn arena(arena: &Arena) -> Value {
    json!({
        "is_main": arena.is_main,
        "threads": arena.threads,
        "heaps": arena.heaps,
        "system_bytes": arena.system_bytes,
        "not_walked_bytes": arena.not_walked_bytes,
        "in_use": space(&arena.in_use),
        "free": space(&arena.free),
        "top": space(&arena.top),
        "fastbins": kept(&arena.fastbins),
        "tcaches": kept(&arena.tcaches),
        "free_bytes": arena.free_bytes(),
        "free_page_bytes": arena.free_page_bytes,
        "fastbin_page_bytes": arena.fastbin_page_bytes,
        "releasable_bytes": arena.releasable_bytes(),
        "largest_free_bytes": arena.largest_free_bytes,
        "fragmentation": arena.fragmentation(),
    })
}

fn cell(cell: &Cell) -> Value {
    json!({
        "arena": cell.arena,
        "address": cell.start,
        "bytes": cell.bytes,
        "resident_bytes": cell.resident_bytes,
        "free_bytes": cell.free_bytes.round() as u64,
    })
}

fn estimate(estimate: Estimate) -> Value {
    json!({ "value": estimate.value.round() as i64, "half_width_95": estimate.half_width_95().round() as i64 })
}

fn pins(pins: &Pins) -> Value {
    let site = |site: &Site| {
        json!({
            "frames": site.frames,
            "holds_back": estimate(site.held),
            "live": estimate(site.live),
            "samples": site.samples,
            "median_age_ns": site.median_age_ns,
            "oldest_age_ns": site.oldest_age_ns,
        })
    };
    json!({
        "samples": pins.samples,
        "holds_back": estimate(pins.held),
        "sites": pins.sites.iter().map(site).collect::<Vec<_>>(),
    })
}

fn one_advice(advice: &Advice) -> Value {
    let (half_width, is_at_most) = match advice.saving {
        Saving::Expected(_, half_width) => (Some(half_width.round() as u64), false),
        Saving::AtMost(_) => (None, true),
        Saving::Unknown => (None, false),
    };
    json!({
        "cause": advice.cause,
        "action": advice.action,
        "evidence": advice.evidence,
        "risk": advice.risk,
        "saving": advice.saving.bytes().map(|bytes| json!({
            "bytes": bytes,
            "half_width_95": half_width,
            "is_at_most": is_at_most,
        })),
    })
}

fn space(space: &Space) -> Value {
    json!({ "chunks": space.chunks, "bytes": space.bytes, "resident_bytes": space.resident_bytes })
}

fn kept(kept: &Kept) -> Value {
    json!({
        "chunks": kept.chunks,
        "bytes": kept.bytes,
        "resident_bytes": kept.resident_bytes,
        "is_cut": kept.is_cut,
    })
}
