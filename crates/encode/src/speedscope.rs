//! A profile in speedscope's own format (`file-format-schema.json` of the npm package `speedscope`): one sampled profile for each sample type that
//! the source counts. Weights are rounded integers.
//!
//! speedscope has no negative weights: stacks that shrank, as only a diff has them, and stacks of 0 are left out.

use crate::json::write_line;
use indexmap::IndexSet;
use ramson_profile::{FrameAt, FrameTable, Profile, SampleType, SampleUnit, Stacks};
use serde::Serialize;
use std::io::{self, Write};

/// Writes the document; `sample_type` is what speedscope opens first.
pub fn write(profile: &Profile, out: &mut dyn Write, sample_type: SampleType) -> io::Result<()> {
    let table = FrameTable::new(profile);
    let mut known: IndexSet<FrameAt> = IndexSet::new();
    let mut stacks = Stacks::default();
    for sample in &profile.samples {
        stacks.push(table.stack(sample).rev().map(|at| known.insert_full(at).0 as u32));
    }
    let frames = known.iter().map(|at| {
        let name = table.name(at.frame);
        let file = (!name.file.is_empty()).then_some(&*name.file);
        Frame { name: &name.name, file, line: (at.line > 0).then_some(at.line) }
    });
    let is_counted = |of: &SampleType| !profile.total(*of).value.is_nan();
    let counted: Vec<SampleType> = SampleType::ALL.into_iter().filter(is_counted).collect();
    let document = Document {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: "ramson",
        name: &profile.command,
        active_profile_index: counted.iter().position(|of| *of == sample_type).unwrap_or(0),
        shared: Shared { frames: frames.collect() },
        profiles: counted.iter().map(|of| Sampled::new(profile, &stacks, *of)).collect(),
    };
    write_line(&document, out)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: Vec<Sampled<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    samples: Vec<&'a [u32]>,
    weights: Vec<i64>,
}

impl<'a> Sampled<'a> {
    fn new(profile: &Profile, stacks: &'a Stacks, sample_type: SampleType) -> Sampled<'a> {
        let rounded = |value: f64| value.round() as i64;
        let weights = profile.samples.iter().map(|sample| rounded(sample.value(sample_type).value));
        let stacks = (0..profile.samples.len()).map(|index| stacks.get(index));
        let (weights, samples): (Vec<i64>, Vec<&[u32]>) =
            weights.zip(stacks).filter(|(weight, _)| *weight > 0).unzip();
        Sampled {
            r#type: "sampled",
            name: sample_type.name(),
            unit: match sample_type.unit() {
                SampleUnit::Bytes => "bytes",
                SampleUnit::Objects => "none",
            },
            start_value: 0,
            end_value: weights.iter().fold(0, |sum: i64, weight| sum.saturating_add(*weight)),
            samples,
            weights,
        }
    }
}
