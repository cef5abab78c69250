//! A profile, or the table of `report`, as one JSON object (other views: `views`). Version 1: `"ramson": 1`. Fields may be added within a
//! version; a change of meaning makes a new one.
//!
//! Bytes and objects are integers, and every estimate is `{"value": int, "half_width_95": int}`: the true value lies
//! within value ± half_width_95 with 95 % probability (0: counted, not estimated). null is unknown: a value that the
//! profile's source does not count, an interval where it does not say how it sampled. Times are nanoseconds since 1970, 0 if
//! unknown. A line of 0 and an empty file are unknown.
//!
//! `write`: `{"ramson", "kind": "profile", "command", "interval_bytes", "start_unix_ns", "time_unix_ns",
//! "totals": {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}, "stacks": [{"kind" ("heap" or "mmap"; absent: heap), "frames":
//! [{"function", "file", "line"}], and the four estimates}]}`, frames leaf first, inlined frames innermost first.
//!
//! `write_report`: `{"ramson", "kind": "report", "sample_type", "unit": "bytes" | "objects", "total": estimate,
//! "rows": [{"function", "file", "line", "flat", "cum", "objects"}]}`, rows as sorted in the table. `ramson report` adds what it knows
//! of the process; among it `"recording": {"interval_bytes", "configured_interval_bytes", "interval_changes", "max_overhead_ppm" (0: no
//! bound), "slow_path_ns" (null: unknown), "cpu_ns" (null: unknown), "overhead_ppm" (slow_path_ns of cpu_ns, null: unknown),
//! "own_resident_bytes" (null: not running), "own_most_bytes", "own_bound_bytes"}` `"coverage"` (null: not running): `{"anonymous_bytes" (= allocator + outside),
//! "live_bytes", "allocator_bytes", "outside_bytes", "reason" (null: live explains enough)}`, and `"health"`, FORMAT.md's health counters.

use ramson_profile::view::{Row, TopTable};
use ramson_profile::{Estimate, FrameTable, Profile, SampleType, SampleUnit, StackSample};
use serde::Serialize;
use serde::ser::Serializer;
use std::io::{self, Write};

/// Version of both objects.
pub(crate) const VERSION: u32 = 1;

/// Writes the profile as one object and a final newline.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let frames = FrameTable::new(profile);
    let object = ProfileObject {
        ramson: VERSION,
        kind: "profile",
        command: &profile.command,
        interval_bytes: profile.interval_bytes,
        start_unix_ns: profile.start_unix_ns,
        time_unix_ns: profile.time_unix_ns,
        totals: FourEstimates::new(SampleType::ALL.map(|of| profile.total(of))),
        stacks: Stacks { frames: &frames, samples: &profile.samples },
    };
    write_line(&object, out)
}

/// Writes the table as one object and a final newline.
pub fn write_report(table: &TopTable, out: &mut dyn Write) -> io::Result<()> {
    let object = ReportObject {
        ramson: VERSION,
        kind: "report",
        sample_type: table.sample_type.name(),
        unit: unit(table.sample_type),
        total: table.total.into(),
        rows: table.rows.iter().map(RowObject::new).collect(),
    };
    write_line(&object, out)
}

pub(crate) fn unit(sample_type: SampleType) -> &'static str {
    match sample_type.unit() {
        SampleUnit::Bytes => "bytes",
        SampleUnit::Objects => "objects",
    }
}

pub(crate) fn write_line(object: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[derive(Serialize)]
struct ProfileObject<'a> {
    ramson: u32,
    kind: &'static str,
    command: &'a str,
    interval_bytes: u64,
    start_unix_ns: u64,
    time_unix_ns: u64,
    totals: FourEstimates,
    stacks: Stacks<'a>,
}

#[derive(Serialize)]
struct ReportObject<'a> {
    ramson: u32,
    kind: &'static str,
    sample_type: &'static str,
    unit: &'static str,
    total: EstimateObject,
    rows: Vec<RowObject<'a>>,
}

#[derive(Serialize)]
struct RowObject<'a> {
    function: &'a str,
    file: &'a str,
    line: u32,
    flat: EstimateObject,
    cum: EstimateObject,
    objects: EstimateObject,
}

impl RowObject<'_> {
    fn new(row: &Row) -> RowObject<'_> {
        RowObject {
            function: &row.name,
            file: &row.file,
            line: row.line,
            flat: row.flat.into(),
            cum: row.cum.into(),
            objects: row.objects.into(),
        }
    }
}

/// Serialized one by one: a profile may have many stacks.
struct Stacks<'a> {
    frames: &'a FrameTable,
    samples: &'a [StackSample],
}

impl Serialize for Stacks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.samples.iter().map(|sample| self.stack(sample)))
    }
}

impl Stacks<'_> {
    fn stack<'a>(&'a self, sample: &'a StackSample) -> StackObject<'a> {
        let frames = self.frames.stack(sample).map(|at| {
            let name = self.frames.name(at.frame);
            FrameObject { function: &name.name, file: &name.file, line: at.line }
        });
        StackObject {
            kind: sample.kind(),
            frames: frames.collect(),
            values: FourEstimates::new(sample.values),
        }
    }
}

#[derive(Serialize)]
struct StackObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    frames: Vec<FrameObject<'a>>,
    #[serde(flatten)]
    values: FourEstimates,
}

#[derive(Serialize)]
struct FrameObject<'a> {
    function: &'a str,
    file: &'a str,
    line: u32,
}

#[derive(Serialize)]
struct FourEstimates {
    alloc_objects: EstimateObject,
    alloc_space: EstimateObject,
    inuse_objects: EstimateObject,
    inuse_space: EstimateObject,
}

impl FourEstimates {
    fn new(values: [Estimate; 4]) -> FourEstimates {
        let of = |sample_type: SampleType| values[sample_type as usize].into();
        FourEstimates {
            alloc_objects: of(SampleType::AllocObjects),
            alloc_space: of(SampleType::AllocSpace),
            inuse_objects: of(SampleType::InuseObjects),
            inuse_space: of(SampleType::InuseSpace),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct EstimateObject {
    value: Option<i64>,
    half_width_95: Option<i64>,
}

impl From<Estimate> for EstimateObject {
    fn from(estimate: Estimate) -> EstimateObject {
        EstimateObject {
            value: integer(estimate.value.round()),
            // Up, so that a small uncertainty does not read as certainty.
            half_width_95: integer(estimate.half_width_95().ceil()),
        }
    }
}

fn integer(value: f64) -> Option<i64> {
    (!value.is_nan()).then_some(value as i64)
}
