//! A profile as pprof's `profile.proto`, gzip'd: what `go tool pprof`, Parca, Pyroscope, speedscope and others read.
//!
//! Four sample types in a fixed order (merging and diffing fail otherwise), values weighted and rounded to integers. The
//! leaf is the first location; addresses of callers are return address − 1, as in the model.

mod strings;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use ramson_profile::pprof as message;
use ramson_profile::{
    BLOCK_SIZE, DROP_FRAMES, LabelValue, Mapping, Profile, STACKS_NOT_RECORDED, SampleType,
    SampleUnit, StackSample,
};
use std::collections::HashSet;
use std::io::{self, Write};
use strings::Strings;

/// Samples that are encoded at a time.
const SAMPLES_PER_PART: usize = 1 << 10;

/// What the profile does not say itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The sample type shown unless the reader asks for another: `inuse_space` for `heap`, `alloc_space` for `allocs`.
    pub default_sample_type: SampleType,
}

impl Default for Options {
    fn default() -> Options {
        Options { default_sample_type: SampleType::InuseSpace }
    }
}

/// Writes the gzip'd protobuf. `time_nanos` is `time_unix_ns`, `duration_nanos` the time since `start_unix_ns` if both
/// are known. The allocator's frames are named in `drop_frames`: readers cut them off, so a profile shows the same numbers
/// here and there only after `drop_allocator_frames`.
///
/// A binary none of whose locations has a name is marked unsymbolized, which makes pprof look for the file itself, and
/// warn if it is not there.
pub fn write(profile: &Profile, out: &mut dyn Write, options: &Options) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::fast());
    Encoder::new(profile).write(options, &mut gzip)?;
    gzip.finish()?.flush()
}

struct Encoder<'a> {
    profile: &'a Profile,
    strings: Strings<'a>,
    /// Id of the location that stands for an empty stack; `None` if there is no such stack.
    not_recorded: Option<u64>,
}

impl<'a> Encoder<'a> {
    fn new(profile: &'a Profile) -> Encoder<'a> {
        let has_empty = profile.samples.iter().any(|sample| sample.locations.is_empty());
        let not_recorded = has_empty.then(|| id(profile.locations.len()));
        Encoder { profile, strings: Strings::new(), not_recorded }
    }

    /// Parts of a message, one after the other, are the message: so no more than one part is held at a time.
    fn write(mut self, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.profile;
        let mut put = |part: message::Profile| out.write_all(&part.encode_to_vec());
        let none = message::Profile::default;
        let types = SampleType::ALL.map(|t| self.value_type(t.name(), unit_name(t)));
        put(message::Profile { sample_type: types.to_vec(), ..none() })?;
        for samples in profile.samples.chunks(SAMPLES_PER_PART) {
            put(message::Profile { sample: self.samples(samples), ..none() })?;
        }
        put(message::Profile { mapping: self.mappings(), ..none() })?;
        put(message::Profile { location: self.locations(), ..none() })?;
        put(message::Profile { function: self.functions(), ..none() })?;
        let known = profile.start_unix_ns != 0 && profile.time_unix_ns != 0;
        let duration = profile.time_unix_ns.saturating_sub(profile.start_unix_ns);
        let rest = message::Profile {
            drop_frames: self.strings.index(DROP_FRAMES),
            time_nanos: signed(profile.time_unix_ns),
            duration_nanos: if known { signed(duration) } else { 0 },
            period_type: Some(self.value_type("space", "bytes")),
            period: signed(profile.interval_bytes),
            default_sample_type: self.strings.index(options.default_sample_type.name()),
            ..none()
        };
        put(message::Profile { string_table: self.strings.into_table(), ..none() })?;
        put(rest)
    }

    fn value_type(&mut self, name: &'static str, unit: &'static str) -> message::ValueType {
        message::ValueType { r#type: self.strings.index(name), unit: self.strings.index(unit) }
    }

    fn samples(&mut self, samples: &'a [StackSample]) -> Vec<message::Sample> {
        let samples = samples.iter().map(|sample| {
            let mut location_id: Vec<u64> =
                sample.locations.iter().map(|&at| id(at as usize)).collect();
            if location_id.is_empty() {
                location_id.extend(self.not_recorded);
            }
            message::Sample {
                location_id,
                value: sample.values.map(|estimate| estimate.value.round() as i64).to_vec(),
                label: self.labels(sample),
            }
        });
        samples.collect()
    }

    /// The sample's own labels, and the block size where it has none of that.
    fn labels(&mut self, sample: &'a StackSample) -> Vec<message::Label> {
        let mut labels: Vec<message::Label> = Vec::with_capacity(1);
        for label in sample.labels.iter() {
            let key = self.strings.index(&label.key);
            labels.push(match &label.value {
                LabelValue::Text(text) => {
                    message::Label { key, str: self.strings.index(text), num: 0, num_unit: 0 }
                }
                LabelValue::Number { value, unit } => {
                    let num_unit = self.strings.index(unit);
                    message::Label { key, str: 0, num: *value, num_unit }
                }
            });
        }
        if !sample.labels.iter().any(|label| &*label.key == BLOCK_SIZE) {
            let (key, num_unit) = (self.strings.index(BLOCK_SIZE), self.strings.index("bytes"));
            let size = block_size(&sample.values.map(|estimate| estimate.value));
            labels.extend(size.map(|num| message::Label { key, str: 0, num, num_unit }));
        }
        labels
    }

    fn mappings(&mut self) -> Vec<message::Mapping> {
        let profile = self.profile;
        let binary = |mapping: &'a Mapping| (mapping.path.as_str(), mapping.build_id.as_str());
        // By binary, not by mapping: pprof joins adjacent mappings of one file and keeps the first one's flags.
        let named = profile.locations.iter().filter(|location| !location.lines.is_empty());
        let symbolized: HashSet<_> = named
            .filter_map(|location| Some(binary(&profile.mappings[location.mapping?])))
            .collect();
        let mut messages = Vec::new();
        for (index, mapping) in profile.mappings.iter().enumerate() {
            let has_names = symbolized.contains(&binary(mapping));
            messages.push(message::Mapping {
                id: id(index),
                memory_start: mapping.start,
                memory_limit: mapping.end,
                file_offset: mapping.file_offset,
                filename: self.strings.index(or_unknown(&mapping.path)),
                build_id: self.strings.index(&mapping.build_id),
                has_functions: has_names,
                has_filenames: has_names,
                has_line_numbers: has_names,
                has_inline_frames: has_names,
            });
        }
        if messages.is_empty() {
            // Without any mapping pprof makes one up, and then misses its binary.
            let filename = self.strings.index(or_unknown(""));
            messages.push(message::Mapping { id: id(0), filename, ..Default::default() });
        }
        messages
    }

    fn locations(&self) -> Vec<message::Location> {
        let locations = self.profile.locations.iter().enumerate().map(|(index, location)| {
            let lines = location.lines.iter().map(|line| message::Line {
                function_id: id(line.function),
                line: line.line.into(),
            });
            message::Location {
                id: id(index),
                mapping_id: location.mapping.map_or(0, id),
                address: location.address.0,
                line: lines.collect(),
            }
        });
        let not_recorded = self.not_recorded.map(|location_id| message::Location {
            id: location_id,
            mapping_id: 0,
            address: 0,
            line: vec![message::Line { function_id: id(self.profile.functions.len()), line: 0 }],
        });
        locations.chain(not_recorded).collect()
    }

    fn functions(&mut self) -> Vec<message::Function> {
        let mut functions: Vec<message::Function> = Vec::new();
        for (index, function) in self.profile.functions.iter().enumerate() {
            let system_name = system_name(&function.name, &function.system_name);
            functions.push(message::Function {
                id: id(index),
                name: self.strings.index(&function.name),
                system_name: self.strings.index(system_name),
                filename: self.strings.index(&function.file),
                start_line: 0,
            });
        }
        if self.not_recorded.is_some() {
            functions.push(message::Function {
                id: id(self.profile.functions.len()),
                name: self.strings.index(STACKS_NOT_RECORDED),
                system_name: 0,
                filename: 0,
                start_line: 0,
            });
        }
        functions
    }
}

/// Ids are positions + 1: 0 means "none".
fn id(index: usize) -> u64 {
    index as u64 + 1
}

/// pprof warns of a file without a name, but takes one in brackets for the kernel's.
fn or_unknown(path: &str) -> &str {
    if path.is_empty() { "[unknown]" } else { path }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unit_name(sample_type: SampleType) -> &'static str {
    match sample_type.unit() {
        SampleUnit::Objects => "count",
        SampleUnit::Bytes => "bytes",
    }
}

/// Average size of the stack's allocations, of the live ones if no others are known. `None` where a diff or an empty
/// stack leaves no such size. Go labels each sample with its block size; ours may be merged per stack.
fn block_size(values: &[f64; 4]) -> Option<i64> {
    let average = |objects: SampleType, space: SampleType| {
        let (objects, space) = (values[objects as usize], values[space as usize]);
        let size = (space / objects).round();
        (objects != 0.0 && size.is_finite() && size >= 1.0).then_some(size as i64)
    };
    average(SampleType::AllocObjects, SampleType::AllocSpace)
        .or_else(|| average(SampleType::InuseObjects, SampleType::InuseSpace))
}

/// pprof demangles a function again whose two names are equal, and then strips parameters and template arguments. So a
/// name that is demangled already goes without its equal twin.
fn system_name<'a>(name: &str, system_name: &'a str) -> &'a str {
    if name == system_name && name.contains(['(', '<']) { "" } else { system_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_size_is_the_average_of_all_allocations_or_of_the_live_ones() {
        assert_eq!(block_size(&[4.0, 66.0, 1.0, 100.0]), Some(17));
        assert_eq!(block_size(&[0.0, 0.0, 2.0, 64.0]), Some(32));
        assert_eq!(block_size(&[-2.0, -64.0, 0.0, 0.0]), Some(32));
        assert_eq!(block_size(&[-2.0, 64.0, 0.0, 0.0]), None);
        assert_eq!(block_size(&[0.0; 4]), None);
    }

    #[test]
    fn only_a_demangled_twin_is_left_out() {
        assert_eq!(system_name("f(int)", "_Z1fi"), "_Z1fi");
        assert_eq!(system_name("f(int)", "f(int)"), "");
        assert_eq!(system_name("main", "main"), "main");
        assert_eq!(system_name("_Z1fi", "_Z1fi"), "_Z1fi");
    }
}
