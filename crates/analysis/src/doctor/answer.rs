//! The finding as `--json` has it.

use super::Finding;
use ramson_process::allocators::{Allocator, Figures};
use ramson_process::glibc::{Arena, Cell, Kept, Parameters, Space, Statistics};
use ramson_process::{Explained, Part};
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let explained = &self.rss.explained;
        let allocators = AllocatorsAnswer {
            glibc: self.allocators.glibc.as_ref(),
            other: self.allocators.other.as_ref().map(|(_, other)| other),
            environment: Pairs(&self.allocators.settings),
        };
        let beside = Beside {
            page_tables: self.page_tables,
            swap: explained.swap,
            hugetlb: explained.hugetlb,
            anonymous_huge: explained.anonymous_huge,
        };
        let asked = self.asked.as_ref();
        let mut object = serializer.serialize_struct("Finding", 14)?;
        object.serialize_field("pid", &self.pid)?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("rss", &self.rss)?;
        object.serialize_field("parts", &Parts(explained))?;
        object.serialize_field("beside", &beside)?;
        object.serialize_field("live_by_profile", &self.live)?;
        object.serialize_field("limit", &self.limit)?;
        object.serialize_field("allocators", &allocators)?;
        let statistics = self.statistics.as_ref();
        object.serialize_field("statistics", &statistics.ok().map(StatisticsAnswer::of))?;
        let missing = statistics.err().map(ToString::to_string);
        object.serialize_field("statistics_missing", &missing)?;
        let figures = asked.and_then(|asked| asked.as_ref().ok()).map(FiguresAnswer::of);
        object.serialize_field("asked", &figures)?;
        object.serialize_field("asked_missing", &asked.and_then(|asked| asked.as_ref().err()))?;
        object.serialize_field("pins", &self.pins)?;
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

struct Pairs<'a>(&'a [(String, String)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Beside {
    page_tables: Option<u64>,
    swap: u64,
    hugetlb: u64,
    anonymous_huge: u64,
}

#[derive(Serialize)]
struct AllocatorsAnswer<'a> {
    glibc: Option<&'a Allocator>,
    other: Option<&'a Allocator>,
    environment: Pairs<'a>,
}

#[derive(Serialize)]
struct FiguresAnswer<'a> {
    function: &'static str,
    #[serde(serialize_with = "as_map")]
    figures: &'a [(&'static str, u64)],
    tid: i32,
    stopped_ms: f64,
}

fn as_map<S: Serializer>(
    figures: &&[(&'static str, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().copied())
}

impl<'a> FiguresAnswer<'a> {
    fn of(asked: &'a Figures) -> Self {
        Self {
            function: asked.function,
            figures: &asked.figures,
            tid: asked.tid,
            stopped_ms: asked.stopped.as_micros() as f64 / 1e3,
        }
    }
}

#[derive(Serialize)]
struct StatisticsAnswer<'a> {
    live_bytes: u64,
    not_walked_share: f64,
    is_surveyed: bool,
    half_width_95: u64,
    mapped_chunks: &'a Space,
    parameters: &'a Parameters,
    arenas: Vec<ArenaAnswer<'a>>,
    map: &'a [Cell],
}

impl<'a> StatisticsAnswer<'a> {
    fn of(statistics: &'a Statistics) -> Self {
        Self {
            live_bytes: statistics.live_bytes(),
            not_walked_share: statistics.not_walked_share(),
            is_surveyed: statistics.is_surveyed(),
            half_width_95: statistics.half_width_95_bytes().round() as u64,
            mapped_chunks: &statistics.mapped,
            parameters: &statistics.parameters,
            arenas: statistics.arenas.iter().map(ArenaAnswer::of).collect(),
            map: &statistics.map.cells,
        }
    }
}

#[derive(Serialize)]
struct ArenaAnswer<'a> {
    is_main: bool,
    threads: u64,
    heaps: u64,
    system_bytes: u64,
    not_walked_bytes: u64,
    in_use: &'a Space,
    free: &'a Space,
    top: &'a Space,
    fastbins: &'a Kept,
    tcaches: &'a Kept,
    free_bytes: u64,
    free_page_bytes: u64,
    fastbin_page_bytes: u64,
    releasable_bytes: u64,
    largest_free_bytes: u64,
    fragmentation: f64,
}

impl<'a> ArenaAnswer<'a> {
    fn of(arena: &'a Arena) -> Self {
        Self {
            is_main: arena.is_main,
            threads: arena.threads,
            heaps: arena.heaps,
            system_bytes: arena.system_bytes,
            not_walked_bytes: arena.not_walked_bytes,
            in_use: &arena.in_use,
            free: &arena.free,
            top: &arena.top,
            fastbins: &arena.fastbins,
            tcaches: &arena.tcaches,
            free_bytes: arena.free_bytes(),
            free_page_bytes: arena.free_page_bytes,
            fastbin_page_bytes: arena.fastbin_page_bytes,
            releasable_bytes: arena.releasable_bytes(),
            largest_free_bytes: arena.largest_free_bytes,
            fragmentation: arena.fragmentation(),
        }
    }
}
