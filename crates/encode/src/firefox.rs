//! A profile in the Firefox Profiler's processed format, version 55 (its newer readers convert it): one thread, one sample per stack, weighted by one sample
//! type. Fields are those of the profiler's own definitions; the crate `fxprof-processed-profile` cannot hold lines, nor weights beyond 2 GiB.
//!
//! Samples have made-up times, a millisecond apart: the format has none without.

use crate::json::write_line;
use indexmap::{IndexMap, IndexSet};
use ramson_profile::{FrameAt, FrameTable, Profile, SampleType, SampleUnit};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes the document. Stacks of 0 are left out, and what is unknown counts 0; a diff has negative weights, which the profiler shows.
pub fn write(profile: &Profile, out: &mut dyn Write, sample_type: SampleType) -> io::Result<()> {
    let frames = FrameTable::new(profile);
    let mut tables = Tables::default();
    let (mut stacks, mut weights) = (Vec::new(), Vec::new());
    for sample in &profile.samples {
        let weight = sample.value(sample_type).value.round() as i64;
        if weight != 0 {
            stacks.push(tables.stack(&frames, frames.stack(sample).rev()));
            weights.push(weight);
        }
    }
    let weight_type = match sample_type.unit() {
        SampleUnit::Bytes => "bytes",
        SampleUnit::Objects => "samples",
    };
    let length = weights.len();
    let samples = json!({
        "length": length,
        "weightType": weight_type,
        "stack": stacks,
        "timeDeltas": vec![1; length],
        "weight": weights,
    });
    let document = json!({
        "meta": meta(profile, sample_type),
        "libs": [],
        "pages": [],
        "profilerOverhead": [],
        "counters": [],
        "threads": [tables.into_thread(profile, sample_type, samples)],
    });
    write_line(&document, out)
}

fn meta(profile: &Profile, sample_type: SampleType) -> Value {
    json!({
        "interval": 1,
        "startTime": profile.start_unix_ns as f64 / 1e6,
        "processType": 0,
        "product": format!("{} ({sample_type})", profile.command),
        "importedFrom": "ramson",
        "stackwalk": 1,
        "debug": false,
        "version": 24,
        "preprocessedProfileVersion": 55,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "markerSchema": [],
    })
}

/// Everything that samples refer to, each thing once; references are positions.
#[derive(Default)]
struct Tables {
    strings: IndexSet<String>,
    /// Name and file.
    functions: IndexSet<(usize, Option<usize>)>,
    /// With the function.
    frames: IndexMap<FrameAt, usize>,
    /// Caller and frame.
    stacks: IndexSet<(Option<usize>, usize)>,
}

impl Tables {
    fn string(&mut self, text: &str) -> usize {
        let known = self.strings.get_index_of(text);
        known.unwrap_or_else(|| self.strings.insert_full(text.to_owned()).0)
    }

    fn frame(&mut self, table: &FrameTable, at: FrameAt) -> usize {
        self.frames.get_index_of(&at).unwrap_or_else(|| {
            let name = table.name(at.frame);
            let file = (!name.file.is_empty()).then(|| self.string(&name.file));
            let function = (self.string(&name.name), file);
            let function = self.functions.insert_full(function).0;
            self.frames.insert_full(at, function).0
        })
    }

    /// Of frames root first, which are at least one.
    fn stack(&mut self, table: &FrameTable, stack: impl Iterator<Item = FrameAt>) -> Option<usize> {
        stack.fold(None, |caller, at| {
            let frame = self.frame(table, at);
            Some(self.stacks.insert_full((caller, frame)).0)
        })
    }

    fn into_thread(self, profile: &Profile, sample_type: SampleType, samples: Value) -> Value {
        let (functions, frames, stacks) = (&self.functions, &self.frames, &self.stacks);
        json!({
            "name": sample_type.name(),
            "processName": profile.command,
            "isMainThread": true,
            "pid": "0",
            "tid": 0,
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": 0,
            "unregisterTime": null,
            "pausedRanges": [],
            "showMarkersInTimeline": false,
            "samples": samples,
            "stringArray": self.strings.iter().collect::<Vec<_>>(),
            "stackTable": {
                "length": stacks.len(),
                "prefix": stacks.iter().map(|stack| stack.0).collect::<Vec<_>>(),
                "frame": stacks.iter().map(|stack| stack.1).collect::<Vec<_>>(),
            },
            "frameTable": {
                "length": frames.len(),
                "address": vec![-1; frames.len()],
                "inlineDepth": vec![0; frames.len()],
                "category": vec![0; frames.len()],
                "subcategory": vec![0; frames.len()],
                "func": frames.values().collect::<Vec<_>>(),
                "nativeSymbol": vec![Value::Null; frames.len()],
                "innerWindowID": vec![0; frames.len()],
                "line": frames.keys().map(|at| (at.line != 0).then_some(at.line)).collect::<Vec<_>>(),
                "column": vec![Value::Null; frames.len()],
            },
            "funcTable": {
                "length": functions.len(),
                "name": functions.iter().map(|function| function.0).collect::<Vec<_>>(),
                "isJS": vec![false; functions.len()],
                "relevantForJS": vec![false; functions.len()],
                "resource": vec![-1; functions.len()],
                "fileName": functions.iter().map(|function| function.1).collect::<Vec<_>>(),
                "lineNumber": vec![Value::Null; functions.len()],
                "columnNumber": vec![Value::Null; functions.len()],
            },
            "resourceTable": { "length": 0, "lib": [], "name": [], "host": [], "type": [] },
            "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
            "markers": { "length": 0, "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [] },
        })
    }
}
