//! The finding as `--json` has it.

use super::advice::Advice;
use super::cause::Cause;
use super::finding::Finding;
use super::leaks::Leaks;
use super::pins::Pins;
use crate::goroutines::Goroutines;
use crate::rss::Rss;
use ramson_process::allocators::{Allocator, Allocators, Figures};
use ramson_process::cgroup::Limit;
use ramson_process::glibc::{Arena, Cell, Parameters, Space, Statistics};
use ramson_process::go_memory::Collector;
use ramson_process::{Details, Part};
use ramson_profile::Estimate;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The finding, field by field.
#[derive(Serialize, JsonSchema)]
struct Answer<'a> {
    pid: u32,
    name: &'a str,
    rss: &'a Rss,
    causes: &'a [Cause],
    /// Bytes of each part of RSS.
    parts: BTreeMap<&'static str, i64>,
    details: &'a Details,
    /// Bytes that are not part of RSS; null: not known.
    beside: BTreeMap<&'static str, Option<u64>>,
    live: &'a Option<Estimate>,
    limit: &'a Option<Limit>,
    allocators: &'a Allocators,
    statistics: Option<StatisticsAnswer<'a>>,
    statistics_missing: Option<String>,
    /// An allocator inside an object that the profile tells of and that can be asked.
    inside: &'a Option<Allocator>,
    asked: Option<&'a Figures>,
    asked_missing: Option<&'a String>,
    pins: &'a Option<Pins>,
    /// Stacks that ended early, if many bytes have them.
    early_ends: &'a Option<String>,
    /// The collector's settings and figures, if it is a Go program.
    go: &'a Option<Collector>,
    /// Its goroutines, by place; null: it is no Go program, or they cannot be read.
    goroutines: &'a Option<Goroutines>,
    leaks: &'a Option<Leaks>,
    advice: &'a [Advice],
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let explained = &self.rss.explained;
        let beside = BTreeMap::from([
            ("page_tables", self.page_tables),
            ("swap", Some(explained.swap)),
            ("hugetlb", Some(explained.hugetlb)),
            ("anonymous_huge", Some(explained.anonymous_huge)),
        ]);
        let statistics = self.statistics.as_ref();
        let asked = self.asked.as_ref().map(Result::as_ref);
        let parts = Part::ALL.iter().map(|&(part, name, _)| (name, explained.part(part)));
        let answer = Answer {
            pid: self.pid,
            name: &self.name,
            rss: &self.rss,
            causes: &self.causes,
            parts: parts.collect(),
            details: &self.details,
            beside,
            live: &self.live,
            limit: &self.limit,
            allocators: &self.allocators,
            statistics: statistics.ok().map(StatisticsAnswer::of),
            statistics_missing: statistics.err().map(ToString::to_string),
            inside: &self.inside,
            asked: asked.and_then(Result::ok),
            asked_missing: asked.and_then(Result::err),
            pins: &self.pins,
            early_ends: &self.early_ends,
            go: &self.go,
            goroutines: &self.goroutines,
            leaks: &self.leaks,
            advice: &self.advice,
        };
        answer.serialize(serializer)
    }
}

impl JsonSchema for Finding {
    fn schema_name() -> Cow<'static, str> {
        "Finding".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Answer::json_schema(generator)
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct StatisticsAnswer<'a> {
    live_bytes: u64,
    not_walked_share: f64,
    is_surveyed: bool,
    half_width_95: u64,
    half_widths_95: BTreeMap<&'static str, u64>,
    read_bytes: u64,
    mapped_chunks: &'a Space,
    parameters: &'a Parameters,
    arenas: Vec<ArenaAnswer<'a>>,
    map: &'a [Cell],
}

impl<'a> StatisticsAnswer<'a> {
    fn of(statistics: &'a Statistics) -> Self {
        let arena = |arena: &'a Arena| ArenaAnswer {
            arena,
            free_bytes: arena.free_bytes(),
            releasable_bytes: arena.releasable_bytes(),
            fragmentation: arena.fragmentation(),
        };
        Self {
            live_bytes: statistics.live_bytes(),
            not_walked_share: statistics.not_walked_share(),
            is_surveyed: statistics.is_surveyed(),
            half_width_95: statistics.half_width_95_bytes().round() as u64,
            half_widths_95: half_widths(statistics),
            read_bytes: statistics.read_bytes,
            mapped_chunks: &statistics.mapped,
            parameters: &statistics.parameters,
            arenas: statistics.arenas.iter().map(arena).collect(),
            map: &statistics.map.cells,
        }
    }
}

fn half_widths(statistics: &Statistics) -> BTreeMap<&'static str, u64> {
    let half_widths = [
        ("live", statistics.live_half_width_95_bytes()),
        ("free", statistics.half_width_95_bytes()),
        ("releasable", statistics.releasable_half_width_95_bytes()),
    ];
    half_widths.map(|(name, bytes)| (name, bytes.ceil() as u64)).into()
}

#[derive(Serialize, schemars::JsonSchema)]
struct ArenaAnswer<'a> {
    #[serde(flatten)]
    arena: &'a Arena,
    free_bytes: u64,
    releasable_bytes: u64,
    fragmentation: f64,
}
