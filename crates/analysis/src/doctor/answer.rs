//! The finding as `--json` has it.

use super::finding::Finding;
use ramson_process::glibc::{Arena, Cell, Parameters, Space, Statistics};
use ramson_process::{Explained, Part};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

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
        let mut object = serializer.serialize_struct("Finding", 16)?;
        object.serialize_field("pid", &self.pid)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("rss", &self.rss)?;
        object.serialize_field("causes", &self.causes)?;
        object.serialize_field("parts", &Parts(explained))?;
        object.serialize_field("beside", &beside)?;
        object.serialize_field("live_by_profile", &self.live)?;
        object.serialize_field("limit", &self.limit)?;
        object.serialize_field("allocators", &self.allocators)?;
        object.serialize_field("statistics", &statistics.ok().map(StatisticsAnswer::of))?;
        let missing = statistics.err().map(ToString::to_string);
        object.serialize_field("statistics_missing", &missing)?;
        object.serialize_field("asked", &asked.and_then(Result::ok))?;
        object.serialize_field("asked_missing", &asked.and_then(Result::err))?;
        object.serialize_field("pins", &self.pins)?;
        object.serialize_field("leaks", &self.leaks)?;
        object.serialize_field("advice", &self.advice)?;
        object.end()
    }
}

struct Parts<'a>(&'a Explained);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Part::ALL.iter().map(|&(part, name, _)| (name, self.0.part(part))))
    }
}

#[derive(Serialize)]
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

#[derive(Serialize)]
struct ArenaAnswer<'a> {
    #[serde(flatten)]
    arena: &'a Arena,
    free_bytes: u64,
    releasable_bytes: u64,
    fragmentation: f64,
}
